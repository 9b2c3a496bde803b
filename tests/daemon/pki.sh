# Certificates for tests.  Source after functions.sh.

have_gnutls ()
{
  command -v certtool >/dev/null && command -v psktool >/dev/null
}

# make_ca DIR: ca-cert.pem and its key.
make_ca ()
{
  mkdir -p "$1"
  certtool --generate-privkey --outfile "$1/ca-key.pem" &&
    printf 'cn = "test CA"\nca\ncert_signing_key\n' >"$1/ca.info" &&
    certtool --generate-self-signed --load-privkey "$1/ca-key.pem" \
      --template "$1/ca.info" --outfile "$1/ca-cert.pem"
}

# make_cert DIR FILE CN TEMPLATE-LINE...: FILE-cert.pem and FILE-key.pem.
make_cert ()
{
  local dir=$1 file=$2 cn=$3
  shift 3
  certtool --generate-privkey --outfile "$dir/$file-key.pem" &&
    printf '%s\n' "cn = \"$cn\"" encryption_key signing_key "$@" \
      >"$dir/$file.info" &&
    certtool --generate-certificate --load-ca-certificate \
      "$dir/ca-cert.pem" --load-ca-privkey "$dir/ca-key.pem" \
      --load-privkey "$dir/$file-key.pem" --template "$dir/$file.info" \
      --outfile "$dir/$file-cert.pem"
}

make_server_cert ()
{
  make_cert "$1" server localhost 'dns_name = "localhost"' tls_www_server
}

# make_client_cert DIR FILE CN
make_client_cert ()
{
  make_cert "$1" "$2" "$3" tls_www_client
}
