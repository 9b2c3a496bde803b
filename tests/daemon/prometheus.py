"""A strict reader of Prometheus' text format (0.0.4)."""

import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
VALUE = re.compile(r"[+-]?(?:Inf|NaN|[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?)$")


class Bad(Exception):
    pass


def labels_of(text):
    """The labels of "a="x",b="y"" as a dict."""
    labels, at = {}, 0
    while at < len(text):
        m = LABEL.match(text, at)
        if not m or m[1] in labels:
            raise Bad("labels: " + text)
        labels[m[1]] = re.sub(r"\\(.)", lambda e: "\n" if e[1] == "n"
                              else e[1], m[2])
        at = m.end()
        if at < len(text):
            if text[at] != ",":
                raise Bad("labels: " + text)
            at += 1
    return labels


def sample_of(line):
    m = NAME.match(line)
    if not m:
        raise Bad("no name: " + line)
    name, rest, labels = m[0], line[m.end():], {}
    if rest.startswith("{"):
        end = re.match(r'\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}', rest)
        if not end:
            raise Bad("no }: " + line)
        labels = labels_of(rest[1:end.end() - 1])
        rest = rest[end.end():]
    if not rest.startswith(" ") or not VALUE.match(rest[1:]):
        raise Bad("no value: " + line)
    return name, labels, float(rest[1:])


def family_of(name, kind, family):
    """Does a sample of this name belong to the family?"""
    if kind == "histogram":
        return name in (family + "_bucket", family + "_sum",
                        family + "_count")
    return name == family


def check_histogram(family, samples):
    series = {}
    for name, labels, value in samples:
        le = labels.pop("le", None)
        key = tuple(sorted(labels.items()))
        s = series.setdefault(key, {"buckets": []})
        if name.endswith("_bucket"):
            s["buckets"].append((float(le), value))
        else:
            s[name[len(family):]] = value
    for key, s in series.items():
        bounds = [b for b, v in s["buckets"]]
        counts = [v for b, v in s["buckets"]]
        if bounds != sorted(set(bounds)) or bounds[-1] != float("inf"):
            raise Bad("%s%r: bounds" % (family, key))
        if counts != sorted(counts) or counts[-1] != s["_count"]:
            raise Bad("%s%r: counts" % (family, key))
        if s["_sum"] < 0:
            raise Bad("%s%r: sum" % (family, key))


def parse(text):
    """{family: (type, [(name, labels, value), ...])}; Bad if it is not."""
    if not text.endswith("\n"):
        raise Bad("no newline at the end")
    families, current, helped, seen = {}, None, None, set()
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            helped = line.split(" ", 3)
            if len(helped) != 4 or helped[2] in families:
                raise Bad(line)
        elif line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            if not helped or helped[2] != current:
                raise Bad("no HELP before " + line)
            if kind not in ("counter", "gauge", "histogram"):
                raise Bad(line)
            if (kind == "counter") != current.endswith("_total"):
                raise Bad("name of a " + kind + ": " + current)
            families[current] = (kind, [])
        elif line.startswith("#") or not line:
            raise Bad("odd line: " + line)
        else:
            name, labels, value = sample_of(line)
            if current is None or not family_of(name, families[current][0],
                                                current):
                raise Bad("not in its family: " + line)
            key = (name, tuple(sorted(labels.items())))
            if key in seen:
                raise Bad("twice: " + line)
            seen.add(key)
            if families[current][0] == "counter" and value < 0:
                raise Bad("negative: " + line)
            families[current][1].append((name, labels, value))
    for family, (kind, samples) in families.items():
        if kind == "histogram":
            check_histogram(family, [(n, dict(l), v) for n, l, v in samples])
    return families


def value(families, name, **labels):
    for family in families.values():
        for n, l, v in family[1]:
            if n == name and l == labels:
                return v
    return None
