package publicfiles

import (
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
)

// NoFsync applies to the directory of clients without a login.
func TestNoFsync(t *testing.T) {
	for _, noFsync := range []bool{false, true} {
		cfg := settings.Default()
		cfg.Dirs, cfg.Files.Upload, cfg.NoFsync = []string{t.TempDir()}, site.UploadCreate, noFsync
		files, err := Open(&cfg, new(service.Env), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		if len(files.uploads) != 1 || files.uploads[0].NoSync != noFsync {
			t.Errorf("NoFsync %v: without a login uploads go to %+v", noFsync, files.uploads)
		}
	}
}
