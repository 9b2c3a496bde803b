# the nbdkit plugin
