package publicfiles

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
)

// Files uploaded to a separate directory must not be served from another one.
func TestUploadDirApart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"served/in/x", "other/x", "client/in/x"} {
		servetest.WriteFile(t, filepath.Join(dir, name), "x")
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, test := range []struct {
		args []string
		ok   bool
	}{
		{[]string{at("served"), "--upload-dir", at("other")}, true},
		{[]string{at("served"), "--upload-dir", at("served")}, false},
		{[]string{at("served"), "--upload-dir", at("served/in")}, false},
		{[]string{at("served/in"), "--upload-dir", at("served")}, false},
		{[]string{at("other"), at("served"), "--upload-dir", at("served/in")}, false},
		{[]string{at("served"), "--upload-dir", at("client/in"), "--root", at("client")}, false},
		{[]string{at("served"), "--upload-dir", at("other") + "/../served/in"}, false},
	} {
		var cfg settings.Config
		for i, a := range test.args {
			switch {
			case i > 0 && test.args[i-1] == "--upload-dir":
				cfg.Files.UploadDir = a
			case i > 0 && test.args[i-1] == "--root":
				cfg.Files.Roots = []settings.Root{{Dir: a}}
			case !strings.HasPrefix(a, "--"):
				cfg.Dirs = append(cfg.Dirs, a)
			}
		}
		err := separate(&cfg)
		if (err == nil) != test.ok || err != nil && !errors.Is(err, failure.Usage) {
			t.Errorf("%v: %v", test.args, err)
		}
	}
}
