package copying

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/store/treecopy"
)

// If the target is a directory, sources are copied below it, unless it is an unfinished earlier
// copy. If the target has a trailing slash, or is the working directory, sources always go below it.
func TestLocalTarget(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		local  string
		resume bool
		want   string
	}{
		{dir, false, ""}, {dir, true, filepath.Base(dir)}, {dir + "/", true, "./"}, {dir + "/.", true, "./"}, {".", true, "./"}, {"", true, "./"},
		{filepath.Join(dir, "new"), true, "new"}, {dir + "/new/", true, "new/"},
	} {
		f := localFiles{&Config{Options: treecopy.Options{Continue: c.resume, Recursive: true}}, map[string]*os.Root{}}
		if p, err := f.target(c.local, false); p.name != c.want || err != nil {
			t.Errorf("target(%q) = %q, %v, want %q", c.local, p.name, err, c.want)
		}
		f.close()
	}
}
