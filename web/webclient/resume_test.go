package webclient

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// A partsLab keeps the received bytes of uploads in parts, as haul's server does.
type partsLab struct {
	mu     sync.Mutex
	part   []byte
	source string
	cuts   []int // how many bytes of each part are received before its connection is cut
	silent bool  // it does not announce that it accepts parts
	lie    string
}

func (p *partsLab) hook(l *lab) func(w http.ResponseWriter, r *http.Request, n int) bool {
	return func(w http.ResponseWriter, r *http.Request, n int) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if r.Method == http.MethodOptions {
			if !p.silent {
				w.Header().Set(acceptUploadRange, "bytes")
			}
			w.WriteHeader(http.StatusNoContent)
			return true
		}
		span := r.Header.Get("Content-Range")
		if r.Method != http.MethodPut || span == "" {
			return false
		}
		if s := r.Header.Get("Upload-Source"); s != p.source {
			p.source, p.part = s, nil
		}
		var first, last, total int
		if _, err := fmt.Sscanf(span, "bytes */%d", &total); err == nil {
			offset := fmt.Sprint(len(p.part))
			if p.lie != "" {
				offset = p.lie
			}
			w.Header().Set(uploadOffset, offset)
			w.WriteHeader(http.StatusAccepted)
			return true
		}
		if _, err := fmt.Sscanf(span, "bytes %d-%d/%d", &first, &last, &total); err != nil || first > len(p.part) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return true
		}
		body := io.Reader(r.Body)
		cut := len(p.cuts) > 0
		if cut {
			body = io.LimitReader(body, int64(p.cuts[0]))
			p.cuts = p.cuts[1:]
		}
		b, err := io.ReadAll(body)
		p.part = append(p.part[:first], b...)
		if cut || err != nil {
			panic(http.ErrAbortHandler)
		}
		if len(p.part) == total && last == total-1 {
			l.mu.Lock()
			l.put[r.URL.Path[1:]] = p.part
			l.mu.Unlock()
			p.part, p.source = nil, ""
			w.WriteHeader(http.StatusCreated)
		}
		return true
	}
}

func startPartsLab(t *testing.T, p *partsLab) *lab {
	t.Helper()
	l := startLab(t, nil)
	l.setHook(p.hook(l))
	return l
}

// After a lost connection, an upload resumes from the offset that the server has.
func TestPutCuts(t *testing.T) {
	const size = 3 << 20
	content := randomContent(size)
	for _, cuts := range [][]int{{0}, {1}, {expectFrom}, {size / 2}, {size - 2}, {size - 1}, {size}, {1000, 0, 0, 2000, 1 << 20}} {
		p := &partsLab{cuts: cuts}
		l := startPartsLab(t, p)
		if _, err := putFile(t, l.client(Config{}), content, treecopy.Options{Continue: true}); err != nil {
			t.Errorf("cut at %v: %v", cuts, err)
			continue
		}
		if got, _ := l.stored("f"); !bytes.Equal(got, content) {
			t.Errorf("cut at %v: %d other bytes have come", cuts, len(got))
		}
		l.Close()
	}
}

// Another run also resumes the upload, if the file is still the same.
func TestPutContinue(t *testing.T) {
	const size = 3 << 20
	content, other := randomContent(size), randomContent(size + 1)[1:]
	for _, test := range []struct {
		cut     int // how many bytes the server has
		changed bool
		resumed int64
	}{{2 << 20, false, 2 << 20}, {2 << 20, true, 0}, {size, false, size - 1}} {
		changed := test.changed
		p := &partsLab{cuts: []int{test.cut, 0, 0, 0, 0, 0}}
		l := startPartsLab(t, p)
		dir := localFile(t, content)
		if _, err := putFrom(t, l.client(Config{}), dir, treecopy.Options{Continue: true}); err == nil {
			t.Fatal("it was not cut off")
		}
		if _, there := l.stored("f"); there {
			t.Error("half a file has its name")
		}
		p.mu.Lock()
		p.cuts = nil
		p.mu.Unlock()
		want := content
		if changed {
			want, dir = other, localFile(t, other)
		}
		result, err := putFrom(t, l.client(Config{}), dir, treecopy.Options{Continue: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := l.stored("f"); !bytes.Equal(got, want) {
			t.Errorf("changed %v: %d other bytes have come", changed, len(got))
		}
		if result.Resumed != test.resumed {
			t.Errorf("%+v: %d bytes are from before", test, result.Resumed)
		}
	}
}

// The client sends no parts to a server that does not announce that it accepts them: the server
// could take a part for the whole file.
func TestPutWithoutParts(t *testing.T) {
	content := randomContent(2 << 20)
	l := startPartsLab(t, &partsLab{silent: true})
	if _, err := putFile(t, l.client(Config{}), content, treecopy.Options{Continue: true}); err != nil {
		t.Fatal(err)
	}
	for _, r := range l.asked() {
		if r.Header.Get("Content-Range") != "" {
			t.Errorf("it was sent %v", r.Header)
		}
	}
	if got, _ := l.stored("f"); !bytes.Equal(got, content) {
		t.Errorf("%d other bytes have come", len(got))
	}
}

// An impossible offset from a server is an error.
func TestPutOffsetLies(t *testing.T) {
	for _, lie := range []string{"-1", "x", "3000000", "99999999999999999999"} {
		l := startPartsLab(t, &partsLab{lie: lie})
		_, err := putFile(t, l.client(Config{}), randomContent(2<<20), treecopy.Options{Continue: true})
		wantIs(t, lie, err, ErrProtocol)
	}
}

// An upload that is discarded starts from scratch.
func TestPutDiscard(t *testing.T) {
	p := &partsLab{part: make([]byte, 100)}
	l := startPartsLab(t, p)
	c := l.client(Config{})
	o := store.Create{Size: 1000, Resume: "me", Source: "x"}
	p.source = uploadSource(o)
	u, err := c.Create(t.Context(), "f", o)
	if err != nil {
		t.Fatal(err)
	}
	r, ok := u.(store.Resumer)
	if !ok || r.Resumed() != 100 {
		t.Fatalf("%T resumes from nowhere", u)
	}
	if err := r.Discard(); err != nil {
		t.Fatal(err)
	}
	if u, err = c.Create(t.Context(), "f", o); err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if r, ok := u.(store.Resumer); ok && r.Resumed() > 0 {
		t.Errorf("it resumes from %d", r.Resumed())
	}
	if _, err := u.(store.Filler).FillFrom(context.Background(), bytes.NewReader(randomContent(1000)), 0, 1000); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
	if got, _ := l.stored("f"); !bytes.Equal(got, randomContent(1000)) {
		t.Errorf("%d other bytes have come", len(got))
	}
}
