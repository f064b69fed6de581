//go:build unix

package trace

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// In a directory such as /tmp, another user can put a link in place of the recording. Its target
// keeps its content.
func TestRecorderLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, link := range map[string]func(from, to string) error{"symbolic": os.Symlink, "hard": os.Link} {
		path := filepath.Join(dir, name)
		if err := link(victim, path); err != nil {
			t.Fatal(err)
		}
		if r, err := (Setup{Pcap: path}).Open(io.Discard); err == nil {
			r.Finish()
			t.Errorf("a %s link is taken for a recording", name)
		}
		if text, err := os.ReadFile(victim); err != nil || string(text) != "content" {
			t.Errorf("%s: the file that the link leads to has %q, %v", name, text, err)
		}
	}
}
