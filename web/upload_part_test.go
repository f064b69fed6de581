package web_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/web"
)

// wantNames checks what a directory holds, hidden files included.
func wantNames(t testing.TB, path string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("the directory holds %q, want %q", names, want)
	}
}

// As long as one part is under way, another is refused as locked.
func TestPutPartsBusy(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the store keeps uploads where there are locks")
	}
	st, _ := dir(t, nil)
	h := &web.Handler{Store: st, Access: web.AccessOverwrite}
	h.Started = func(*web.Exchange) {
		h2 := &web.Handler{Store: st, Access: web.AccessOverwrite}
		a := ask(t, h2, "PUT /f", "", "Content-Range: bytes */20")
		a.want(t, http.StatusLocked, "*")
		a.wantField(t, "Retry-After", "1")
	}
	ask(t, h, "PUT /f", "0123456789", "Content-Range: bytes 0-9/20").want(t, 202, "*")
}

// RFC 9110 §14.4, and what an upload wants besides.
func TestPutBadParts(t *testing.T) {
	h := &web.Handler{Store: mem(t, nil), Access: web.AccessOverwrite, MaxUpload: 1 << 20}
	for _, field := range []string{
		"", "bytes", "bytes ", "bytes 0-3", "bytes 0-3/", "bytes 0-3/*", "bytes */*", "bytes 0-3/3", "bytes 3-0/4", "bytes 0-3/0",
		"bytes -3/4", "bytes 0-/4", "bytes a-b/c", "lines 0-3/4", "bytes=0-3/4", "bytes 0-2/4", "bytes 0-4/5", "bytes */4",
		"bytes 0-3/99999999999999999999", "bytes +0-3/4", "bytes 0 -3/4", "bytes 0-3/4 ",
	} {
		a := ask(t, h, "PUT /f", "abcd", "Content-Range: "+field)
		if a.status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", field, a.status, a.body)
		}
	}
	ask(t, h, "PUT /f", "abcd", "Content-Range: bytes 0-3/4", "Content-Range: bytes 0-3/4").want(t, 400, "*")
	ask(t, h, "PUT /f", "abcd", "Content-Range: bytes 0-3/4", "Upload-Source: "+strings.Repeat("x", 1000)).want(t, 400, "*")
	ask(t, h, "PUT /f", "abcd", "Content-Range: bytes 0-3/2000000").want(t, 413, "*")
	// Of a content without a length, all of it has to come.
	s := serve(t, h)
	for body, status := range map[string]int{"abc": 400, "abcde": 400, "abcd": 201} {
		r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/f", chunked{strings.NewReader(body)})
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Range", "bytes 0-3/4")
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status && body != "abcd" || body == "abcd" && resp.StatusCode >= 300 {
			t.Errorf("%q: %d", body, resp.StatusCode)
		}
	}
}

var cutSeed = flag.Uint64("seed", 0, "seed of TestPutPartsCutOff; 0 draws one")

// However often the connection is cut, the upload comes to its end, with what it
// should hold, and never sends again more than it has to.
func TestPutPartsCutOff(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the store keeps uploads where there are locks")
	}
	seed := cmp.Or(*cutSeed, rand.Uint64())
	repeat.OnFailure(t, fmt.Sprintf("-seed=%d", seed))
	rnd := rand.New(rand.NewPCG(seed, 0))
	st, path := dir(t, nil)
	h := &web.Handler{Store: st, Access: web.AccessCreate}
	told := ended(h)
	body := pattern(3 << 20)
	s := serve(t, h)
	offset := func() int {
		for {
			r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/f", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Range", fmt.Sprintf("bytes */%d", len(body)))
			resp, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			<-told
			if resp.StatusCode == http.StatusLocked {
				time.Sleep(time.Millisecond)
				continue
			}
			var n int
			if _, err := fmt.Sscan(resp.Header.Get("Upload-Offset"), &n); err != nil || resp.StatusCode != http.StatusAccepted {
				t.Fatalf("asked, and got %d, %v", resp.StatusCode, err)
			}
			return n
		}
	}
	var there int
	for cuts := 0; ; cuts++ {
		now := offset()
		if now < there {
			t.Fatalf("seed %d: there were %d bytes, and now %d", seed, there, now)
		}
		there = now
		left := body[there:]
		n := min(len(left), 64<<10+rnd.IntN(1<<20)) // enough that the head of the request is sent, too
		content := io.MultiReader(bytes.NewReader(left[:n]), iotestErr{})
		if cuts > 10 || n == len(left) {
			n, content = len(left), bytes.NewReader(left)
		}
		r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/f", content)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = int64(len(left))
		r.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", there, len(body)-1, len(body)))
		resp, err := s.Client().Do(r)
		x := <-told
		if n < len(left) {
			if err == nil {
				resp.Body.Close()
			}
			if x.Err == nil {
				t.Fatalf("seed %d: a part that was cut off is taken for whole", seed)
			}
			continue
		}
		if err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatalf("seed %d: %v, %v", seed, resp, err)
		}
		resp.Body.Close()
		break
	}
	if got := content(t, st, "f"); got != string(body) {
		t.Errorf("seed %d: the file is not what was sent", seed)
	}
	wantNames(t, path, "f")
}

// iotestErr fails as a connection does.
type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }
