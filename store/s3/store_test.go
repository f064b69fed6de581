package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/s3test"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// testKeys are the keys with which tests sign.
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

// Files of one part and of several parts are read back from a real server as they were written, by
// every way of reading.
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

// A store obeys the contract, except for the parts that S3 cannot support.
func TestStore(t *testing.T) {
	c := startGateway(t)
	runs := 0
	const replaced = ": a file that is replaced is ErrChanged to those that have it open"
	storetest.Run(t, func(t *testing.T) store.Store {
		runs++
		return newStore(t, fmt.Sprint("run", runs), c)
	},
		"OpenFileKeepsContent"+replaced,
		"CommitsWhileReading"+replaced,
		"CloseWhileReading"+replaced,
		"Perm: S3 has no permissions",
		"NotRegular: a key may begin with another and a slash",
	)
}

// A store obeys the contract of trees, except that a bucket has no empty directories, and that files
// can only be replaced.
func TestTree(t *testing.T) {
	c := startGateway(t)
	lacks := []string{
		"Mkdir: a directory comes with its first file",
		"RemoveDir: it goes with its last file; TestDirectories has the rest",
		"Rename: files alone are renamed: TestRename",
		"RenameDirectory: directories are not renamed",
	}
	for _, name := range []string{"Access", "OpenNotRegular", "InPlace", "InPlaceAtRandom", "Append", "WriteInPlaceConcurrently", "HandleOutlivesName", "HandleErrors", "OpenedBefore"} {
		lacks = append(lacks, name+": an object is not changed in place")
	}
	for _, name := range []string{"SetMode", "SetTimes", "SetSize", "SetNothing", "Root"} {
		lacks = append(lacks, name+": an object has no attributes to set")
	}
	runs := 0
	storetest.RunTree(t, func(t *testing.T) store.Tree {
		runs++
		return newStore(t, fmt.Sprint("tree", runs), c)
	}, lacks...)
}

// Two open files have the same Identity and Version only if their content is the same. If the ETag
// is an MD5, the MD5 of the content is known without reading.
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
	f.Put("f", "one")
	a, b := open(), open()
	f.Put("f", "two")
	c := open()
	ia, _ := a.Identity()
	ib, _ := b.Identity()
	ic, _ := c.Identity()
	if ia != ib || ia == ic || a.Version() != b.Version() || a.Version() == c.Version() {
		t.Errorf("%+v, %+v, %+v", ia, ib, ic)
	}
	if fi, err := s.Stat(t.Context(), "f"); err != nil || fi.(store.Versioned).Version() != c.Version() {
		t.Errorf("a description has another version than the file, or %v", err)
	}
	sum := md5.Sum([]byte("two"))
	if name, got, err := c.Hash(t.Context(), 0, 3, "sha256", "md5"); name != "md5" || !bytes.Equal(got, sum[:]) || err != nil {
		t.Errorf("%s %x, %v", name, got, err)
	}
	unknown := func(what string, f *file, n int64, algorithm string) {
		t.Helper()
		if _, _, err := f.Hash(t.Context(), 0, n, algorithm); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	unknown("a part of the file", c, 2, "md5")
	unknown("another algorithm", c, 3, "sha256")
	o := s3test.NewObject("two")
	o.ETag = "0123456789abcdef0123456789abcdef-2"
	f.PutObject("f", o)
	unknown("several parts", open(), 3, "md5")
	if _, _, err := c.Hash(t.Context(), 0, 3, "sha256"); !errors.Is(err, store.ErrChanged) {
		t.Errorf("the hash of a file that was replaced: %v", err)
	}
}

// A file that a gateway did not receive by S3 has no ETag. Its version consists of its time and
// size. If it may change again within the same second, it cannot be opened.
func TestWithoutETag(t *testing.T) {
	c, bucket := startGatewayDir(t)
	s := newStore(t, "", c)
	path := filepath.Join(bucket, "f")
	write := func(data []byte, at time.Time) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, data, 0o644), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	data, past := randomBytes(9<<20), time.Now().Add(-time.Hour).Truncate(time.Second)
	write(data, past)
	got, fetched, err, fetchErr := readBoth(t, s, "f")
	if err != nil || fetchErr != nil || !bytes.Equal(got, data) || !bytes.Equal(fetched, data) {
		t.Errorf("%d and %d bytes of %d; %v, %v", len(got), len(fetched), len(data), err, fetchErr)
	}
	file, err := s.open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if v := file.Version(); v != past.UTC().Format(http.TimeFormat) {
		t.Errorf("its version is %q", v)
	}
	for _, at := range []time.Time{past.Add(time.Second), past.Add(-time.Second)} {
		write(randomBytes(len(data)), at)
		if n, err := file.ReadAt(make([]byte, 10), 1<<20); n != 0 || !errors.Is(err, store.ErrChanged) {
			t.Errorf("of a file that was replaced by one of %v came %d bytes, %v", at, n, err)
		}
	}
	if err := s.Rename(t.Context(), "f", "g", true); err != nil {
		t.Error(err)
	}
	write(data, time.Now().Add(time.Hour))
	if _, err := s.Open(t.Context(), "f"); !errors.Is(err, ErrProtocol) || !errors.Is(err, store.ErrUnsettled) || !strings.Contains(err.Error(), "open it again later") {
		t.Errorf("of a file that may change again: %v", err)
	}
	if fi, err := s.Stat(t.Context(), "f"); err != nil || fi.Size() != int64(len(data)) {
		t.Errorf("it cannot be described: %v", err)
	}
}
