package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/pipelisten"
	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/s3test"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// farAway runs f in a bubble, with a store of a fake that needs a round trip for each answer.
func farAway(t *testing.T, trip time.Duration, f func(t *testing.T, far *s3test.Server, s *Store)) {
	synctest.Test(t, func(t *testing.T) {
		far, l := s3test.NewHandler(), pipelisten.New()
		far.SetHook(func(http.ResponseWriter, *http.Request) bool {
			time.Sleep(trip)
			return false
		})
		server := &http.Server{Handler: far}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { server.Close() })
		f(t, far, newStore(t, "", Config{
			Endpoint: "http://far.test", Region: "us-east-1", Keys: testKeys.get,
			Dial: func(context.Context, string, string) (net.Conn, error) { return l.Dial(t), nil },
		}))
	})
}

// A tree of small files takes one request for each file, and a few for each directory, whether the
// files exist or not. Enough requests run at a time to transfer at least 4,000 files a second at 20
// ms; 64 requests would be 3,200. Over a short path there are 64.
func TestSmallFilesFarAway(t *testing.T) {
	type path struct {
		trip        time.Duration
		files       int64
		least, most int // requests at a time
		took        time.Duration
	}
	paths := []path{
		{20 * time.Millisecond, 1000, 200, defaultConns, 250 * time.Millisecond},
		{time.Millisecond, 1000, 32, 64 + 16, 100 * time.Millisecond}, // and 16 listings
	}
	if race.Enabled { // the time of each path is the same, and takes many files to show
		paths = []path{{time.Millisecond, 200, 32, 64 + 16, 100 * time.Millisecond}}
	}
	const dirs = 10
	for _, test := range paths {
		files := test.files
		for _, upload := range []bool{false, true} {
			farAway(t, test.trip, func(t *testing.T, far *s3test.Server, s *Store) {
				local := store.Mem(0)
				for i := range files {
					name := fmt.Sprintf("d/%d/%d", i%dirs, i)
					if !upload {
						far.Put(name, name)
					} else if err := writeMem(local, name, name); err != nil {
						t.Fatal(err)
					}
				}
				j := treecopy.Job{Options: treecopy.Options{Recursive: true}}
				if j.To = local; !upload {
					j.Sources = []treecopy.Source{{Tree: s, Name: "d"}}
				} else {
					j.Sources, j.To = []treecopy.Source{{Tree: local, Name: "d"}}, s
				}
				began := time.Now()
				r, err := treecopy.Copy(t.Context(), j)
				took := time.Since(began)
				requests := far.Asked()
				t.Logf("%v, upload %v: %v, %d requests, up to %d at a time", test.trip, upload, took, len(requests), far.Most())
				if err != nil || r.Copied != files || took > test.took {
					t.Errorf("%+v in %v, %v", r, took, err)
				}
				if n := len(requests) - int(files); n > 3*(dirs+1) {
					t.Errorf("%d requests more than files: %q ...", n, requests[:20])
				}
				if upload { // upload once more, into directories that exist now
					for _, unchanged := range []treecopy.Unchanged{treecopy.Never, treecopy.Hash} {
						j.Options.Unchanged = unchanged
						r, err := treecopy.Copy(t.Context(), j)
						if want := files * int64(unchanged/treecopy.Hash); err != nil || r.Copied+r.Same != files || r.Same != want {
							t.Errorf("again, %v: %+v, %v", unchanged, r, err)
						}
						if n := len(far.Asked()) - int(files); n > 3*(dirs+1) {
							t.Errorf("again, %v: %d requests more than files", unchanged, n)
						}
					}
				}
				if far.Most() < test.least || far.Most() > test.most {
					t.Errorf("%d requests at a time, want %d to %d", far.Most(), test.least, test.most)
				}
			})
		}
	}
}

func writeMem(m store.Store, name, content string) error {
	u, err := m.Create(context.Background(), name, store.Create{Parents: true})
	if err != nil {
		return err
	}
	defer u.Close()
	if _, err := u.WriteAt([]byte(content), 0); err != nil {
		return err
	}
	return u.Commit()
}

// A server that can handle only a limited number of requests at a time gets fewer, and soon refuses
// only a few. No file fails.
func TestPace(t *testing.T) {
	const files, room, trip = 1500, 64, 20 * time.Millisecond
	farAway(t, trip, func(t *testing.T, far *s3test.Server, s *Store) {
		var running, refused atomic.Int64
		far.SetHook(func(w http.ResponseWriter, r *http.Request) bool {
			defer running.Add(-1)
			over := running.Add(1) > room
			time.Sleep(trip)
			if over {
				refused.Add(1)
				s3test.Refuse(w, r, 503, "SlowDown")
			}
			return over
		})
		local := store.Mem(0)
		for i := range files {
			if err := writeMem(local, fmt.Sprintf("d/%d", i), "content"); err != nil {
				t.Fatal(err)
			}
		}
		r, err := treecopy.Copy(t.Context(), treecopy.Job{
			Sources: []treecopy.Source{{Tree: local, Name: "d"}}, To: s, Options: treecopy.Options{Recursive: true},
		})
		t.Logf("%d refused", refused.Load())
		if err != nil || r.Copied != files || refused.Load() > files/2 {
			t.Errorf("%+v, %v, and %d requests were refused", r, err, refused.Load())
		}
		if most := s.http.pace.most; most < room/4 || most > 2*room {
			t.Errorf("at the end there may be %d requests at a time, and the server has time for %d", most, room)
		}
		if free := s.http.pace.room.free; free != int64(s.http.pace.most) {
			t.Errorf("%d of %d are free, and nothing is under way", free, s.http.pace.most)
		}
	})
}

// A listed file is opened without a request and read by one request, and the file that is read is
// the one that was listed. A request asks whether its ETag is an MD5 only if the file was not read
// before.
func TestOpenListed(t *testing.T) {
	f := newFake(t)
	s := f.store()
	listed := func(name string) fs.FileInfo {
		t.Helper()
		list, err := s.ReadDir(t.Context(), ".")
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		fi, err := list[0].Info()
		if err != nil {
			t.Fatal(err)
		}
		f.Asked()
		return fi
	}
	open := func(fi fs.FileInfo) *file {
		t.Helper()
		opened, err := s.openListed(t.Context(), "f", fi)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { opened.Close() })
		return opened.(*file)
	}
	wantAsked := func(what string, want ...string) {
		t.Helper()
		if got := f.Asked(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s took %q, want %q", what, got, want)
		}
	}
	f.Put("f", "content")
	fi := listed("f")
	a := open(fi)
	wantAsked("to open it")
	got := make(sliceSink, 7)
	if n, err := a.FetchTo(t.Context(), got, 0); n != 7 || err != nil || string(got) != "content" {
		t.Errorf("%d, %v: %q", n, err, got)
	}
	wantAsked("to fetch it", "GET f")
	if _, _, err := a.Hash(t.Context(), 0, 7, "md5"); err != nil {
		t.Error(err)
	}
	wantAsked("to know the hash then")
	b := open(fi)
	if _, _, err := b.Hash(t.Context(), 0, 7, "md5"); err != nil {
		t.Error(err)
	}
	wantAsked("to know the hash before", "HEAD f")
	c := open(fi)
	for i := range 7 {
		if _, err := c.ReadAt(got[i:i+1], int64(i)); err != nil {
			t.Error(err)
		}
	}
	wantAsked("to read it in order", "GET f")

	d, e := open(fi), open(fi)
	f.Put("f", "another")
	if n, err := d.FetchTo(t.Context(), got, 0); n != 0 || !errors.Is(err, store.ErrChanged) {
		t.Errorf("of a file that was replaced came %d bytes, %v", n, err)
	}
	if _, _, err := e.Hash(t.Context(), 0, 7, "md5"); !errors.Is(err, store.ErrChanged) {
		t.Errorf("the hash of a file that was replaced: %v", err)
	}
	// With keys of KMS the ETag is not an MD5.
	f.SetHook(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("X-Amz-Server-Side-Encryption", "aws:kms")
		return false
	})
	if _, _, err := open(listed("f")).Hash(t.Context(), 0, 7, "md5"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the hash of an encrypted file: %v", err)
	}
	if _, err := s.openListed(t.Context(), "../f", fi); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a name that none has: %v", err)
	}
	f.Asked()
	open(info{name: "f", size: 7})
	wantAsked("to open one without an ETag", "GET f")
}

// A server without support for ranges sends the whole file if the range is the whole file, whatever
// its size.
func TestWholeForRange(t *testing.T) {
	f := newFake(t)
	data := string(randomBytes(maxAnswer + 1))
	f.Put("f", data)
	s := f.store()
	fi, err := s.Stat(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	f.SetHook(func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Range")
		return false
	})
	opened, err := s.openListed(t.Context(), "f", fi)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if got, err := io.ReadAll(io.NewSectionReader(opened, 0, fi.Size())); err != nil || string(got) != data {
		t.Errorf("%d bytes of %d, %v", len(got), len(data), err)
	}
}

// If files of a tree are replaced after the listing, the new files are copied.
func TestReplacedSinceListed(t *testing.T) {
	for _, old := range []string{"old", ""} {
		t.Run(fmt.Sprintf("%d bytes", len(old)), func(t *testing.T) { replacedSinceListed(t, old) })
	}
}

func replacedSinceListed(t *testing.T, old string) {
	f := newFake(t)
	s := f.store()
	f.Put("d/gone", old)
	f.Put("d/new", old)
	f.SetHook(func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/d/") {
			return false
		}
		f.SetHook(nil)
		f.Put("d/new", "new content")
		f.Delete("d/gone")
		return false
	})
	to := store.Mem(0)
	r, err := treecopy.Copy(t.Context(), treecopy.Job{
		Sources: []treecopy.Source{{Tree: s, Name: "d"}}, To: to,
		Options: treecopy.Options{Recursive: true, Replaced: func(err error) bool { return errors.Is(err, store.ErrChanged) }},
	})
	if r.Copied != 1 || r.Failed != 1 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%+v, %v", r, err)
	}
	if fi, err := to.Stat(t.Context(), "d/new"); err != nil || fi.Size() != 11 {
		t.Errorf("%v, %v", fi, err)
	}
}
