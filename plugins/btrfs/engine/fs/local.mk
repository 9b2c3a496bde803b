# fs: no sources yet
