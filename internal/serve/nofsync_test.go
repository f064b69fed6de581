package serve

import (
	"testing"

	"github.com/haul-project/haul/site"
	"github.com/haul-project/haul/users"
)

// NoFsync reaches every directory that is written to: of clients without a login, DIR
// for users, and a user's own.
func TestNoFsync(t *testing.T) {
	for _, noFsync := range []bool{false, true} {
		cfg := Default()
		cfg.Dirs, cfg.Files.Upload, cfg.NoFsync = []string{t.TempDir()}, site.UploadCreate, noFsync
		files, err := cfg.openPublicFiles(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer files.close()
		if len(files.uploads) != 1 || files.uploads[0].NoSync != noFsync {
			t.Errorf("NoFsync %v: without a login uploads go to %+v", noFsync, files.uploads)
		}
		roots, err := openUserRoots(cfg.Dirs[0], nil, false, cfg.NoFsync, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer roots.close()
		if _, _, _, err := roots.enter(users.User{Root: "bob"}); err != nil {
			t.Fatal(err)
		}
		if roots.local.NoSync != noFsync {
			t.Errorf("NoFsync %v: DIR of users has %v", noFsync, roots.local.NoSync)
		}
		for _, o := range roots.open {
			if o.files.NoSync != noFsync {
				t.Errorf("NoFsync %v: a user's directory has %v", noFsync, o.files.NoSync)
			}
		}
	}
}
