package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/race"
)

// A republished file has another version each time that a part of it is asked for,
// as long as there are some left.
type republished struct {
	t *testing.T

	mu      sync.Mutex
	left    int           // mu: versions to come
	version int           // mu
	whole   int           // mu: requests for all of it
	sent    int           // mu: the version that the last of them got
	asked   chan struct{} // mu: closed once a part is asked for after that
}

const republishedSize = 8 << 20

// content returns a version. The later, the shorter it is.
func (p *republished) content(version int) []byte {
	unit := fmt.Sprintf("version %07d\n", version)
	return []byte(strings.Repeat(unit, republishedSize/len(unit)-version))
}

// serve answers with the version that there is. All of it comes at once if no
// other version is left; else the end waits until a part is asked for.
func (p *republished) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	part := r.Header.Get("Range") != ""
	stays := p.left == 0
	if part && !stays {
		p.left--
		p.version++
	}
	// The server may serve an earlier request only now. That names the version that it
	// wants more of.
	late := r.Header.Get("If-Range") != fmt.Sprintf(`"%d"`, p.sent)
	if part && !late {
		select {
		case <-p.asked:
		default:
			close(p.asked)
		}
	} else if !part && r.Method == http.MethodGet {
		p.whole++
		p.sent = p.version
		p.asked = make(chan struct{})
	}
	version, whole, asked := p.version, p.whole, p.asked
	p.mu.Unlock()
	content := p.content(version)
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, version))
	if part || stays || r.Method != http.MethodGet {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		return
	}
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	const first = 1 << 20
	_, _ = w.Write(content[:first])
	_ = http.NewResponseController(w).Flush()
	if whole > 2 {
		// Nothing else may be asked for. To wait longer than it takes to be asked
		// can only find more.
		select {
		case <-asked:
			p.t.Error("the last time, parts are asked for")
		case <-time.After(500 * time.Millisecond):
		}
		p.mu.Lock()
		p.version++
		p.mu.Unlock()
	} else {
		select {
		case <-asked:
		case <-r.Context().Done():
		}
	}
	_, _ = w.Write(content[first:])
}

// A file that is replaced while it comes is begun anew; if it is replaced again and
// again, it comes over one connection, and is of one version.
func TestHTTPGetReplaced(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, flags := range []string{"", "--continue", "-p --in-place", "--recursive"} {
		for _, changes := range []int{1, 2, 1000} {
			if race.Enabled && flags != "" && changes < 1000 { // as without flags, and then as with more changes
				continue
			}
			l := startWeb(t, map[string]string{"dir/big": ""})
			p := &republished{t: t, left: changes, asked: make(chan struct{})}
			l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/big") {
					return false
				}
				p.serve(w, r)
				return true
			})
			here := t.TempDir()
			args := append([]string{"get"}, strings.Fields(flags)...)
			code, _, msg := haul(t, append(args, l.URL+"/dir/big", here)...)
			if code != 0 {
				t.Errorf("%d changes, %q: exit code %d, %s", changes, flags, code, msg)
			}
			wantTree(t, here, map[string]string{"big": string(p.content(p.sent))})
			if want := min(changes, 2) + 1; p.whole < 2 || p.whole > want {
				t.Errorf("%d changes, %q: it was begun %d times", changes, flags, p.whole)
			}
		}
	}
}
