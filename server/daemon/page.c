/* daemon: the files of the status page, taken in by the assembler. */
#include <config.h>

#include "daemon/metrics.h"

/* LABEL and LABEL_end around the contents of a file in PAGE_DIR. */
#define TAKE_IN(label, file)                                                  \
  __asm__ (".section .rodata\n"                                               \
           ".balign 16\n"                                                     \
           #label ":\n"                                                       \
           ".incbin \"" PAGE_DIR "/" file "\"\n"                              \
           #label "_end:\n"                                                   \
           ".byte 0\n"                                                        \
           ".previous\n");                                                    \
  extern const char label[], label##_end[]

TAKE_IN (page_html, "page.html");
TAKE_IN (page_css, "page.css");
TAKE_IN (page_js, "page.js");
TAKE_IN (page_icon, "icon.svg");

const struct page_file *
page_files (size_t *ret_count)
{
  static const struct page_file files[] = {
    { "/", "text/html; charset=utf-8", page_html, page_html_end },
    { "/page.css", "text/css; charset=utf-8", page_css, page_css_end },
    { "/page.js", "text/javascript; charset=utf-8", page_js, page_js_end },
    { "/icon.svg", "image/svg+xml", page_icon, page_icon_end },
  };

  *ret_count = sizeof files / sizeof files[0];
  return files;
}
