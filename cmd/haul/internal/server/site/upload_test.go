package site_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

func TestUploadPolicies(t *testing.T) {
	now := time.Date(2026, 11, 22, 11, 15, 0, 123456789, time.FixedZone("", 3600))
	tests := []struct {
		policy site.Policy
		name   string
		want   string
	}{
		{site.UploadNone, "new", "refused: uploads are not allowed"},
		{site.UploadCreate, "new", "new"},
		{site.UploadCreate, "old", "exists"},
		{site.UploadOverwrite, "new", "new"},
		{site.UploadOverwrite, "old", "old"},
		{site.UploadUnique, "new", "new.20261122T101500.123Z"},
		{site.UploadUnique, "old", "old.20261122T101500.123Z"},
		{site.UploadUnique, "d.x/config.txt", "d.x/config.20261122T101500.123Z.txt"},
		{site.UploadUnique, "d.x/.profile", "d.x/.profile.20261122T101500.123Z"},
		{site.UploadUnique, "a.tar.gz", "a.tar.20261122T101500.123Z.gz"},
		{site.UploadUnique, "taken.txt", "taken.20261122T101500.123Z-3.txt"},
		{site.UploadUnique, "dot.", "dot.20261122T101500.123Z."},
	}
	for _, test := range tests {
		st := mem(t, "", "old", "d.x/f", "taken.20261122T101500.123Z.txt", "taken.20261122T101500.123Z-2.txt")
		s := &site.Site{Roots: []site.Root{{Files: st}}, Upload: test.policy, Now: func() time.Time { return now }}
		if got := upload(t, s, client("10.0.0.1"), test.name, "sent"); got != test.want {
			t.Errorf("%v, %s: %q, want %q", test.policy, test.name, got, test.want)
			continue
		}
		fails := strings.HasPrefix(test.want, "refused") || test.want == "exists"
		if _, err := st.Stat(t.Context(), test.want); (err == nil) == fails {
			t.Errorf("%v, %s: %v", test.policy, test.name, err)
		}
		old := "old"
		if test.policy == site.UploadOverwrite && test.name == "old" {
			old = "sent"
		}
		if got := read(t, s, client("10.0.0.1"), "old"); got != old {
			t.Errorf("%v, %s: old is %q", test.policy, test.name, got)
		}
	}
}

// Simultaneous uploads with one name all get a name, in whichever order they end.
func TestUniqueAtOnce(t *testing.T) {
	const uploads = 50
	now := time.UnixMilli(1)
	s := &site.Site{Roots: []site.Root{{Files: mem(t, "")}}, Upload: site.UploadUnique, Now: func() time.Time { return now }}
	names := make([]string, uploads)
	var wg sync.WaitGroup
	for i := range uploads {
		wg.Go(func() { names[i] = upload(t, s, client("10.0.0.1"), "f", "x") })
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] || !strings.HasPrefix(n, "f.1970") {
			t.Errorf("%q", n)
		}
		seen[n] = true
	}
}

func TestUniqueGivesUp(t *testing.T) {
	tries := 0
	s := &site.Site{Roots: []site.Root{{Files: fullStore{tries: &tries}}}, Upload: site.UploadUnique}
	if got := upload(t, s, client("10.0.0.1"), "f", ""); got != "exists" || tries != 100 {
		t.Errorf("%q after %d tries", got, tries)
	}
}

// A fullStore has every name already.
type fullStore struct {
	store.Store
	tries *int
}

func (f fullStore) Create(_ context.Context, name string, o store.Create) (store.Upload, error) {
	*f.tries++
	if !o.Exclusive {
		return nil, errors.New("not exclusive")
	}
	return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
}

// Readers learn nothing about a tree that is only for uploads.
func TestUploadsCannotBeRead(t *testing.T) {
	in := mem(t, "", "f", "d/g")
	s := &site.Site{Roots: []site.Root{{Files: mem(t, "", "h"), Uploads: in, PerClient: site.ByIP, Shared: true}}, Upload: site.UploadOverwrite}
	for _, name := range []string{"f", "d/g", "d", "none"} {
		_, err := s.Open(t.Context(), client("10.0.0.1"), name)
		if !errors.Is(err, fs.ErrNotExist) || err.Error() != "open "+name+": file does not exist" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Stat(t.Context(), client("10.0.0.1"), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Map = mapFile(t, "rE ^x$ f\nr ^x$ h")
	if got := read(t, s, client("10.0.0.1"), "x"); got != "h" {
		t.Errorf("an E rule revealed that there is an upload: %q", got)
	}
	if got := upload(t, s, client("10.0.0.1"), "h", "x"); got != "h" {
		t.Error(got)
	}
	if got := read(t, s, client("10.0.0.1"), "h"); got != "h" {
		t.Errorf("h was uploaded into what is read: %q", got)
	}
}

// Directories are created for files that may be written, except for clients' own directories.
func TestUploadParents(t *testing.T) {
	path := t.TempDir()
	root, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.Mkdir("10.0.0.3", 0o755); err != nil {
		t.Fatal(err)
	}
	s := &site.Site{
		Roots:  []site.Root{{Files: localdir.New(root), PerClient: site.ByIP}},
		Access: rules(t, "deny write * /secret/**"), Upload: site.UploadCreate,
	}
	for _, c := range []struct {
		peer, name, stored string
		want               error
	}{
		{"10.0.0.1", "new/f", "new/f", nil},
		{"10.0.0.1", "secret/f", "secret", fs.ErrPermission},
		{"10.0.0.1", "10.0.0.1/f", "10.0.0.1", fs.ErrNotExist}, // it has no directory, and cannot create one
		{"10.0.0.1", "10.0.0.2/f", "10.0.0.2", fs.ErrNotExist},
		{"10.0.0.1", "10.0.0.3/f", "10.0.0.3/f", fs.ErrNotExist},
		{"10.0.0.3", "new/f", "10.0.0.3/new/f", nil},
		{"10.0.0.3", "10.0.0.3/f", "10.0.0.3/10.0.0.3/f", nil},
	} {
		u, err := s.Create(t.Context(), client(c.peer), c.name, store.Create{Parents: true})
		if err == nil {
			err = u.Commit()
			u.Close()
		}
		_, there := root.Stat(c.stored)
		if !errors.Is(err, c.want) || (there == nil) != (c.want == nil) {
			t.Errorf("%s from %s: %v, want %v; %s: %v", c.name, c.peer, err, c.want, c.stored, there)
		}
	}
	// Without Parents no directory is made, as over TFTP.
	if _, err := s.Create(t.Context(), client("10.0.0.1"), "none/f", store.Create{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
