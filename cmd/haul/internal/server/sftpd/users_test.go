package sftpd

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
)

// Without --users, the file in the default place is used. If it is wrong, it is not ignored.
func TestDefaultUsers(t *testing.T) {
	etc := t.TempDir()
	t.Setenv("CONFIGURATION_DIRECTORY", etc)
	path := filepath.Join(etc, "users")
	servetest.WriteFile(t, path, "user alice\n")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	var cfg settings.Config
	p, one, err := openSessions(&cfg, nil)
	if err != nil || p.File != path || one != nil {
		t.Errorf("%+v, %+v, %v", p, one, err)
	}
	servetest.WriteFile(t, path, "nonsense\n")
	if _, _, err := openSessions(&cfg, nil); !errors.Is(err, failure.Local) {
		t.Errorf("a file that is wrong: %v", err)
	}
}
