//go:build unix

package openssh

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A link of another user in place of known_hosts is not followed, so nothing is added to its target.
func TestKnownHostsForeignLink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	victim := writeFile(t, "victim", "content\n")
	link := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, 4711, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := addKnown(link, "h", newKey(t, "ed25519").PublicKey(), false); err == nil || !strings.Contains(err.Error(), "link of another user") {
		t.Errorf("%v, want an error about the link", err)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "content\n" {
		t.Errorf("the file that the link leads to has %q, %v", text, err)
	}
}
