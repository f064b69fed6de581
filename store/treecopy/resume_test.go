package treecopy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

var continued = treecopy.Options{Recursive: true, Continue: true, PreserveTimes: true, Fatal: isLost}

func isLost(err error) bool { return errors.Is(err, sftpclient.ErrConnectionLost) }

// A download that is cut off anywhere resumes, and the result is correct.
func TestDownloadCutOff(t *testing.T) {
	data := pattern(6<<20+123, 1)
	resumedMost := int64(0)
	for cut := int64(30_000); cut < int64(len(data))+200_000; cut += 700_001 {
		served, _ := dirTree(t)
		put(t, served, "d/large", data)
		put(t, served, "d/small", data[:1000])
		to, dir := dirTree(t)
		h := newHost(t, served, false)
		// In spite of all losses the file is complete in the end.
		var resumed int64
		var err error
		for try := range 5 {
			at := cut
			if try == 3 {
				at = 0
			}
			c := h.dial(t, 0, at, 0)
			var r treecopy.Result
			r, _, err = copyAll(t.Context(), c.Store("/"), to, ".", continued, "d")
			resumed += r.Resumed
			_ = c.Close()
			if err == nil {
				break
			}
			if !isLost(err) {
				t.Errorf("cut after %d bytes: %v", at, err)
			}
			if _, err := to.Stat(t.Context(), "d/large"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("cut after %d bytes, something has the name: %v", at, err)
			}
		}
		h.end()
		if err != nil {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
		resumedMost = max(resumedMost, resumed)
		wantSame(t, contents(t, served, true), contents(t, to, true))
		wantNothingLeft(t, dir)
	}
	if resumedMost < 4<<20 {
		t.Errorf("no more than %d bytes were ever left", resumedMost)
	}
}

// The same applies to an upload. Its record says after each 32 MiB how much of a file is there;
// recording more would need the connection.
func TestUploadCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, hidden := range []bool{false, true} {
		for _, cut := range []int64{100_000, 3 << 20, 44 << 20} {
			t.Run(fmt.Sprint(hidden, " ", cut), func(t *testing.T) {
				size := 2 << 20
				if cut > int64(size) {
					size = int(cut) + 6<<20
				}
				data := pattern(size, 1)
				from, _ := dirTree(t)
				put(t, from, "d/large", data)
				served, dir := dirTree(t)
				h := newHost(t, served, hidden)
				defer h.end()
				c := h.dial(t, 0, 0, cut)
				if _, _, err := copyAll(t.Context(), from, c.Store("/"), ".", continued, "d"); !isLost(err) {
					t.Errorf("error %v", err)
				}
				_ = c.Close()
				if _, err := served.Stat(t.Context(), "d/large"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("something has the name: %v", err)
				}
				c = h.dial(t, 0, 0, 0)
				defer c.Close()
				there := recorded(t, c)
				r, _, err := copyAll(t.Context(), from, c.Store("/"), ".", continued, "d")
				if err != nil {
					t.Error(err)
				}
				if there != (r.Resumed >= 32<<20) || there && cut < 32<<20 {
					t.Errorf("%d bytes were left of %d, with a record: %v", r.Resumed, cut, there)
				}
				wantSame(t, contents(t, from, true), contents(t, served, true))
				wantNothingLeft(t, dir)
			})
		}
	}
}

// stopAfter returns a context that ends when a number of bytes were transferred, and the hooks that
// end it.
func stopAfter(t *testing.T, n int64) (context.Context, treecopy.Hooks) {
	ctx, stop := context.WithCancel(t.Context())
	s := newSeen()
	var moved int64
	return ctx, treecopy.Hooks{Progress: func(_ *treecopy.Item, some int64) {
		s.do(func() {
			if moved += some; moved >= n {
				stop()
			}
		})
	}}
}

// A copy resumes only for the same content: the source's size and time, and the last bytes, must be
// the same.
func TestContinue(t *testing.T) {
	data := pattern(8<<20, 1)
	then := time.Unix(1_000_000_000, 0)
	for _, kind := range []string{"local", "download", "upload"} {
		t.Run(kind, func(t *testing.T) {
			local, dir := dirTree(t)
			served, servedDir := dirTree(t)
			from, to := store.Tree(local), store.Tree(served)
			switch kind {
			case "download":
				from = remoteTree(t, local, false)
			case "upload":
				to = remoteTree(t, served, true)
			}
			interrupt := func() {
				put(t, local, "f", data)
				setTime(t, local, "f", then)
				if err := served.Remove(t.Context(), "f"); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				ctx, hooks := stopAfter(t, 4<<20)
				j := treecopy.Job{Sources: []treecopy.Source{{Tree: from, Name: "f"}}, To: to, Options: continued, Hooks: hooks}
				if _, err := treecopy.Copy(ctx, j); !errors.Is(err, context.Canceled) {
					t.Fatalf("interrupted: %v", err)
				}
				if _, err := served.Stat(t.Context(), "f"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("something has the name: %v", err)
				}
			}
			resume := func(want bool) {
				t.Helper()
				r, s, err := copyAll(t.Context(), from, to, ".", continued, "f")
				if err != nil {
					t.Fatal(err)
				}
				if (r.Resumed > 0) != want || s.outcomes["f"].Resumed != r.Resumed {
					t.Errorf("%d bytes resumed, want some: %v", r.Resumed, want)
				}
				if size := int64(len(get(t, local, "f"))); s.bytes["f"] != size || r.Bytes+r.Resumed != size {
					t.Errorf("%d bytes were reported, and the result is %+v", s.bytes["f"], r)
				}
				wantBytes(t, served, "f", get(t, local, "f"))
				wantNothingLeft(t, servedDir)
			}
			interrupt()
			resume(true)

			interrupt() // another time
			setTime(t, local, "f", then.Add(time.Second))
			resume(false)

			interrupt() // another size
			put(t, local, "f", data[:7<<20])
			setTime(t, local, "f", then)
			resume(false)

			interrupt() // other bytes, of the same size and time
			other := bytes.Clone(data)
			for i := 0; i < len(other); i += 100_000 {
				other[i]++
			}
			put(t, local, "f", other)
			setTime(t, local, "f", then)
			resume(false)

			interrupt() // not resumed
			o := continued
			o.Continue = false
			if r, _, err := copyAll(t.Context(), from, to, ".", o, "f"); err != nil || r.Resumed != 0 {
				t.Errorf("%+v, %v", r, err)
			}
			wantBytes(t, served, "f", data)
			_ = dir
		})
	}
}

// For a copy in place, the existing bytes must be the same from the first one on.
func TestContinueInPlace(t *testing.T) {
	data := pattern(3<<20, 1)
	for _, gap := range []bool{false, true} {
		from, to := store.Mem(0), store.Mem(0)
		put(t, from, "f", data)
		part := bytes.Clone(data[:2<<20])
		if gap {
			clear(part[1000:2000])
		}
		put(t, to, "f", part)
		r, _, err := copyAll(t.Context(), from, to, ".", treecopy.Options{Continue: true, InPlace: true}, "f")
		if err != nil || (r.Resumed == 2<<20) == gap || gap && r.Resumed != 0 {
			t.Errorf("gap %v: %+v, %v", gap, r, err)
		}
		wantBytes(t, to, "f", data)
	}
}

// recorded reports whether the server has a checkpoint.
func recorded(t *testing.T, c *sftpclient.Client) bool {
	list, err := c.ReadDir(t.Context(), "/d")
	if err != nil {
		t.Error(err)
	}
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), ".record") {
			continue
		}
		f, err := c.Open(t.Context(), "/d/"+e.Name())
		if err != nil {
			continue // it is being replaced
		}
		b := make([]byte, 512)
		n, _ := f.ReadAt(b, 0)
		_ = f.Close()
		if strings.Count(string(b[:n]), " whole=") > strings.Count(string(b[:n]), " whole=0 ") {
			return true
		}
	}
	return false
}
