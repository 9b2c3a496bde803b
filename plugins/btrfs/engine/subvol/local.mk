# subvol: no sources yet
