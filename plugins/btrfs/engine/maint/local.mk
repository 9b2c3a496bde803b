# maint: no sources yet
