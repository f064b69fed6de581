package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/store"
)

// publish writes a file, and describes it as a store does.
func publish(t *testing.T, path string, content []byte) *store.Published {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return &store.Published{Info: info, When: time.Now()}
}

// hash computes one hash.
func hash(t *testing.T, h *Hasher, path string, file *store.Published) activity.Event {
	t.Helper()
	done := make(chan activity.Event, 1)
	h.Hash(activity.Event{Event: activity.Uploaded, Path: path}, file, func(e activity.Event) { done <- e })
	return <-done
}

func wantWhy(t *testing.T, e activity.Event, why string) {
	t.Helper()
	if e.SHA256 == nil || *e.SHA256 != "" || !strings.Contains(e.Why, why) {
		t.Errorf("%v, %q; want no hash since %q", e.SHA256, e.Why, why)
	}
	if line := string(e.AppendLine(nil)); !strings.Contains(line, `"sha256":null,"why":"`) {
		t.Error(line)
	}
}

func TestHash(t *testing.T) {
	h := NewHasher()
	defer h.Close()
	path := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, hashBuffer - 1, hashBuffer, 3*hashBuffer + 5} {
		content := bytes.Repeat([]byte("haul!"), size/5+1)[:size]
		e := hash(t, h, path, publish(t, path, content))
		sum := sha256.Sum256(content)
		if e.SHA256 == nil || string(*e.SHA256) != hex.EncodeToString(sum[:]) || e.Why != "" {
			t.Errorf("%d bytes: %v, %q", size, e.SHA256, e.Why)
		}
	}
}

// If another file has taken the name of the upload, that file is not hashed in place of the upload.
func TestReplaced(t *testing.T) {
	h := NewHasher()
	defer h.Close()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	file := publish(t, path, []byte("mine"))
	kept := filepath.Join(dir, "kept") // so that its inode number is not reused
	if err := os.Rename(path, kept); err != nil {
		t.Fatal(err)
	}
	wantWhy(t, hash(t, h, path, file), "removed")
	publish(t, path, []byte("hers"))
	if err := os.Chtimes(path, time.Time{}, file.Info.ModTime()); err != nil {
		t.Fatal(err)
	}
	wantWhy(t, hash(t, h, path, file), "replaced")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	wantWhy(t, hash(t, h, path, file), "replaced")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(kept, path); err != nil {
		t.Fatal(err)
	}
	if e := hash(t, h, path, file); *e.SHA256 == "" {
		t.Error(e.Why)
	}
	if err := os.WriteFile(path, []byte("more"), 0o600); err != nil { // the same size
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, file.Info.ModTime().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	wantWhy(t, hash(t, h, path, file), "changed")
	wantWhy(t, hash(t, h, "", file), "does not know")
	wantWhy(t, hash(t, h, path, nil), "does not know")
}

// A file that was kept open is hashed even if another file has its name by now. Its modification
// time may have changed, but its content must not have.
func TestKept(t *testing.T) {
	h := NewHasher()
	defer h.Close()
	path := filepath.Join(t.TempDir(), "file")
	kept := func(content string) *store.Published {
		p := publish(t, path, []byte(content))
		var err error
		if p.File, err = os.Open(path); err != nil {
			t.Fatal(err)
		}
		return p
	}
	closed := 0
	p := kept("content")
	p.Closed = func() { closed++ }
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path+".moved", time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("content"))
	if e := hash(t, h, path, p); string(*e.SHA256) != hex.EncodeToString(sum[:]) || closed != 1 {
		t.Errorf("%v, %q, closed %d times", *e.SHA256, e.Why, closed)
	}
	p = kept("content")
	if err := os.WriteFile(path, []byte("another"), 0o600); err != nil { // the same size
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, p.Info.ModTime().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	wantWhy(t, hash(t, h, path, p), "changed")
}

// Uploads beyond the bound get no hash, and nothing blocks. When the server shuts down, the waiting
// uploads are still hashed.
func TestManyHashes(t *testing.T) {
	h := NewHasher()
	path := filepath.Join(t.TempDir(), "file")
	file := publish(t, path, []byte("content"))
	busy, resume := make(chan bool, hashers), make(chan bool)
	for range hashers {
		h.Hash(activity.Event{Path: path}, file, func(activity.Event) { busy <- true; <-resume })
	}
	for range hashers {
		<-busy
	}
	done := make(chan activity.Event, maxHashes+2)
	add := func(user string, n int) {
		for range n {
			h.Hash(activity.Event{Path: path, User: user}, file, func(e activity.Event) { done <- e })
		}
	}
	add("alice", maxHashes/2)
	if len(done) != 0 {
		t.Fatal("a hash is there before its turn")
	}
	add("alice", 1) // this is more than the share of a user
	wantWhy(t, <-done, "too many")
	add("bob", maxHashes/4)
	add("", maxHashes/4) // events without a user and an address have no share
	if len(done) != 0 {
		t.Fatal("there is no room for others")
	}
	wantWhy(t, hash(t, h, path, file), "too many")
	close(resume)
	if left := h.Close(); left != 0 || len(done) != maxHashes {
		t.Errorf("%d are left, %d done", left, len(done))
	}
}
