package activity

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/transfer"
)

// The path of an event leads to the file of the event, or is left out.
func TestCheckPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "d", "file")
	for _, c := range []struct {
		what           string
		do             func() error
		uploaded, read bool // whether the path remains for an upload, and for a file that was only read
	}{
		{"unchanged", func() error { return nil }, true, true},
		{"written again", func() error { return os.WriteFile(file, []byte("more"), 0o600) }, true, true},
		{"gone", func() error { return os.Remove(file) }, false, false},
		{"replaced", func() error { return os.Rename(dir+"/secret", file) }, false, true},
		{"replaced by a link", func() error { return errors.Join(os.Remove(file), os.Symlink(dir+"/secret", file)) }, false, false},
		{"replaced by a link to itself", func() error { return errors.Join(os.Rename(file, dir+"/it"), os.Symlink(dir+"/it", file)) }, false, false},
		{"replaced by a directory", func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }, false, false},
		{"its directory replaced by a link", func() error { return errors.Join(os.Rename(dir+"/d", dir+"/old"), os.Symlink(dir+"/other", dir+"/d")) }, false, false},
	} {
		for name, content := range map[string]string{"d/file": "text", "secret": "secret", "other/file": "secret"} {
			name = filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(content), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		var uploaded Event
		r := &Reporter{Hook: func(e Event) { uploaded = e }}
		r.Ended(meter.Ended{Info: meter.Info{Write: true}, End: meter.End{Result: meter.Done, Path: file, Detail: &tftp.Transfer{Stats: transfer.Stats{Received: 1}, Published: &store.Published{Info: info}}}})
		read := Event{Event: Downloaded, Path: file}
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		uploaded.CheckPath()
		read.CheckPath()
		if (uploaded.Path == file) != c.uploaded || (read.Path == file) != c.read || uploaded.Path != "" && uploaded.Path != file {
			t.Errorf("%s: the path of an upload is %q, of a download %q", c.what, uploaded.Path, read.Path)
		}
		if err := errors.Join(os.RemoveAll(dir+"/d"), os.RemoveAll(dir+"/old")); err != nil {
			t.Fatal(err)
		}
	}
}
