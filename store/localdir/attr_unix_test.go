//go:build unix

package localdir_test

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

// TestSetAttrEach makes each change of attributes fail in turn. All other changes must be made, and
// the first error must be reported.
func TestSetAttrEach(t *testing.T) {
	then := time.Unix(1_000_000_000, 0)
	for _, fails := range [][]string{{"truncate"}, {"chmod"}, {"chtimes"}, {"chown"}, {"chown", "chmod"}, {"truncate", "chtimes"}} {
		for _, how := range []string{"name", "handle"} {
			dir, d := tempDir(t)
			writeFile(t, dir, "f", "content")
			h, err := d.OpenFile(t.Context(), "f", store.Access{Write: true})
			if err != nil {
				t.Fatal(err)
			}
			fi, err := h.Stat()
			if err != nil {
				t.Fatal(err)
			}
			details, _ := store.DetailsOf(fi)
			a := store.Attr{Size: new(int64(3)), Mode: new(fs.FileMode(0o600)), ModTime: then, UID: &details.UID, GID: &details.GID}
			chowned := false
			d.Before(func(call string) error {
				chowned = chowned || call == "chown"
				if slices.Contains(fails, call) {
					return fmt.Errorf("%s: %w", call, syscall.EPERM)
				}
				return nil
			})
			if how == "name" {
				err = d.SetAttr(t.Context(), "f", a, true)
			} else {
				err = h.SetAttr(a)
			}
			d.Before(nil)
			first := "chown"
			for _, call := range []string{"chtimes", "chmod", "truncate"} {
				if slices.Contains(fails, call) {
					first = call
				}
			}
			if err == nil || !strings.Contains(err.Error(), first+": ") {
				t.Errorf("%v by %s: %v", fails, how, err)
			}
			fi, err = h.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if cut := fi.Size() == 3; cut == slices.Contains(fails, "truncate") {
				t.Errorf("%v by %s: the size is %d", fails, how, fi.Size())
			}
			if set := fi.Mode() == 0o600; set == slices.Contains(fails, "chmod") {
				t.Errorf("%v by %s: the mode is %v", fails, how, fi.Mode())
			}
			if set := fi.ModTime().Equal(then); set == slices.Contains(fails, "chtimes") {
				t.Errorf("%v by %s: the time is %v", fails, how, fi.ModTime())
			}
			if !chowned {
				t.Errorf("%v by %s: the owner is not tried", fails, how)
			}
			h.Close()
		}
	}
}

// TestSetAttrKeepsSpecialBits sets setuid, setgid and another owner of a file in one call.
func TestSetAttrKeepsSpecialBits(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to give files away")
	}
	dir, d := tempDir(t)
	d.SpecialBits = true
	writeFile(t, dir, "f", "x")
	want := fs.ModeSetuid | fs.ModeSetgid | 0o755
	if err := d.SetAttr(t.Context(), "f", store.Attr{Mode: &want, UID: new(uint32(1234))}, true); err != nil {
		t.Error(err)
	}
	if got := mode(t, dir, "f"); got != want {
		t.Errorf("the mode is %v, want %v", got, want)
	}
}
