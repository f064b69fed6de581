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

// A republished file gets a new version each time that a part of it is requested, as long as
// versions are left.
type republished struct {
	t *testing.T

	mu      sync.Mutex
	left    int           // guarded by mu: number of versions that are still to come
	version int           // guarded by mu
	whole   int           // guarded by mu: number of requests for the whole file
	sent    int           // guarded by mu: the version that the last request for the whole file got
	asked   chan struct{} // guarded by mu: closed at the first request for a part after that request
}

const republishedSize = 8 << 20

// content returns a version. Later versions are shorter.
func (p *republished) content(version int) []byte {
	unit := fmt.Sprintf("version %07d\n", version)
	return []byte(strings.Repeat(unit, republishedSize/len(unit)-version))
}

// serve answers with the current version. If no other version is left, it sends everything at once.
// Otherwise it holds back the end of the file until a part is requested.
func (p *republished) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	part := r.Header.Get("Range") != ""
	stays := p.left == 0
	if part && !stays {
		p.left--
		p.version++
	}
	// The server may get to an earlier request only now. If-Range names the version that the client
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
		// Nothing else may be requested. A longer wait could only find more requests.
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

// If a file is replaced during a get, the get begins again. If it is replaced again and again, it
// is fetched over one connection, and all of it has one version.
func TestHTTPGetReplaced(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, flags := range []string{"", "--continue", "-p --in-place", "--recursive"} {
		for _, changes := range []int{1, 2, 1000} {
			// Skip this slow case: the cases without flags and those with more changes cover the same code.
			if race.Enabled && flags != "" && changes < 1000 {
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
