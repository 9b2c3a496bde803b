# What service.sh has its systemd run: the service as README.md installs it,
# restarted and killed while clients connect all the time.  TAP lines without
# numbers; the last line is "done".
export PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin
uri="nbd+unix:///vm1?socket=/run/btrnbd/nbd.sock"

ok ()
{
  local what=$1
  shift
  if "$@" >/test/ok.log 2>&1; then
    echo "ok $what"
  else
    echo "not ok $what"
    cat /test/ok.log
  fi
}
property ()
{
  systemctl show -p "$1" --value btrnbd
}
serves ()
{
  [ "$(property ActiveState)/$(property SubState)" = active/running ]
}
serves_again ()
{
  local i
  for (( i = 0; i < 300; i++ )); do
    serves && [ "$(property MainPID)" != "$1" ] && return 0
    sleep 0.1
  done
  systemctl status btrnbd
  return 1
}
same ()
{
  nbdcopy "$uri" - | cmp - /test/data
}

ok "the user" systemd-sysusers /usr/local/lib/sysusers.d/btrnbd.conf
install -d -o btrnbd /var/lib/btrnbd
as=(runuser -u btrnbd -- btrnbd -d /var/lib/btrnbd/pool.img)
ok "mkfs" "${as[@]}" mkfs --size 300M
ok "create" "${as[@]}" create vm1 --size 16M
systemctl daemon-reload
ok "enable --now" systemctl enable --now btrnbd.socket btrnbd
ok "it serves" serves
ok "it has told systemd that it does" test "$(property Type)" = notify
pid=$(property MainPID)
ok "as an unprivileged user" test "$(stat -c %U "/proc/$pid")" = btrnbd
ok "without capabilities" grep -q '^CapEff:.0*$' "/proc/$pid/status"
head -c 16M /dev/urandom >/test/data
ok "write" nbdcopy --flush /test/data "$uri"

python3 /test/service-clients.py >/test/clients 2>&1 &
clients=$!
for i in 1 2 3; do
  pid=$(property MainPID)
  ok "restart $i" systemctl restart btrnbd
  ok "it is another process" serves_again "$pid"
  ok "with the same data" same
done
pid=$(property MainPID)
ok "reload" systemctl reload btrnbd
ok "it is the same process" test "$(property MainPID)" = "$pid"
kill -KILL "$pid"
ok "it comes back when it was killed" serves_again "$pid"
ok "with the same data" same
ok "clients" kill -TERM "$clients"
wait "$clients"
read -r met refused cut < <(tail -n 1 /test/clients)
sed 's/^/met, refused, cut: /' /test/clients
ok "many clients" test "$met" -gt 20
ok "nobody was refused" test "$refused" = 0
ok "nobody was cut but by the kill" test "$cut" -le 2
ok "stop" systemctl stop btrnbd
ok "it ended as it should" test "$(property Result)" = success
ok "the pool is in order" btrfs check --force /var/lib/btrnbd/pool.img
echo done
