package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// testKeys are what tests sign with.
var testKeys = Keys{ID: "AKIDTEST", Secret: "test-secret-of-the-tests"}

func (k Keys) get(context.Context) (Keys, error) { return k, nil }

func newStore(t testing.TB, prefix string, c Config) *Store {
	t.Helper()
	s, err := New("b12", prefix, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

func put(t testing.TB, s *Store, name string, data []byte, c store.Create) {
	t.Helper()
	u, err := s.Create(t.Context(), name, c)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for off := 0; off < len(data); off += 1 << 20 {
		if _, err := u.WriteAt(data[off:min(len(data), off+1<<20)], int64(off)); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
}

// Files of one part and of several come back from a real server as they were sent, by
// each way to read.
func TestRoundTrips(t *testing.T) {
	c := startGateway(t)
	s := newStore(t, "p/q", c)
	for _, size := range []int{0, 1, 17<<20 + 3} {
		for _, announced := range []int64{int64(size), 0} {
			data := randomBytes(size)
			put(t, s, "dir/f", data, store.Create{Size: announced})
			got, fetched, err, fetchErr := readBoth(t, s, "dir/f")
			if err != nil || fetchErr != nil || !bytes.Equal(got, data) || !bytes.Equal(fetched, data) {
				t.Errorf("%d and %d bytes of %d; %v, %v", len(got), len(fetched), size, err, fetchErr)
			}
		}
	}
	if got := names(t, s, "."); !slices.Equal(got, []string{"dir/"}) {
		t.Errorf("the root has %q", got)
	}
	if fi, err := s.Stat(t.Context(), "dir"); err != nil || !fi.IsDir() {
		t.Errorf("%v, %v", fi, err)
	}
	if _, err := s.Stat(t.Context(), "di"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

type sliceSink []byte

func (s sliceSink) WriteAt(p []byte, off int64) (int, error) { return copy(s[off:], p), nil }

// A store keeps the contract, but for the parts that S3 has no means for.
func TestStore(t *testing.T) {
	c := startGateway(t)
	runs := 0
	replaced := "a file that is replaced is ErrChanged to those that have it open"
	storetest.RunExcept(t, func(t *testing.T) store.Store {
		runs++
		return newStore(t, fmt.Sprint("run", runs), c)
	}, map[string]string{
		"OpenFileKeepsContent": replaced,
		"CommitsWhileReading":  replaced,
		"CloseWhileReading":    replaced,
		"Perm":                 "S3 has no permissions",
		"NotRegular":           "a key may begin with another and a slash",
	})
}

// Two files that are open have one Identity and Version only if their content is the
// same. The MD5 of the content is known without reading where the ETag is one.
func TestVersions(t *testing.T) {
	f := newFake(t)
	s := f.store()
	open := func() *file {
		t.Helper()
		file, err := s.open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	f.put("f", "one")
	a, b := open(), open()
	f.put("f", "two")
	c := open()
	ia, _ := a.Identity()
	ib, _ := b.Identity()
	ic, _ := c.Identity()
	if ia != ib || ia == ic || a.Version() != b.Version() || a.Version() == c.Version() {
		t.Errorf("%+v, %+v, %+v", ia, ib, ic)
	}
	sum := md5.Sum([]byte("two"))
	if name, got, err := c.Hash(t.Context(), 0, 3, "sha256", "md5"); name != "md5" || !bytes.Equal(got, sum[:]) || err != nil {
		t.Errorf("%s %x, %v", name, got, err)
	}
	for what, hash := range map[string]func() (string, []byte, error){
		"a part of the file": func() (string, []byte, error) { return c.Hash(t.Context(), 0, 2, "md5") },
		"another algorithm":  func() (string, []byte, error) { return c.Hash(t.Context(), 0, 3, "sha256") },
		"several parts": func() (string, []byte, error) {
			f.putObject("f", &object{size: 3, etag: "0123456789abcdef0123456789abcdef-2", data: []byte("two")})
			return open().Hash(t.Context(), 0, 3, "md5")
		},
	} {
		if _, _, err := hash(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
