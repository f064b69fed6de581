package hooks

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A receiver answers posts with its status codes in order, and repeats the last one.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	codes  []int         // guarded by mu
	posts  []http.Header // guarded by mu
	bodies []string      // guarded by mu
}

func newReceiver(t *testing.T, codes ...int) *receiver {
	r := &receiver{codes: codes}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil || req.Method != http.MethodPost {
			t.Errorf("%s, %v", req.Method, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.posts, r.bodies = append(r.posts, req.Header), append(r.bodies, string(body))
		code := r.codes[0]
		if len(r.codes) > 1 {
			r.codes = r.codes[1:]
		}
		if code >= 300 && code < 400 {
			w.Header().Set("Location", r.URL+"/elsewhere")
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(r.Close)
	return r
}

const testLimit = time.Minute

// A failed post is repeated. The repeated post is signed too, and receivers can recognize it as the
// same event.
func TestPostAgain(t *testing.T) {
	t.Parallel() // it waits most of the time
	key, event := []byte("0123456789abcdef"), []byte("{\"event\":\"uploaded\"}\n")
	r := newReceiver(t, http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusNoContent)
	if err := post(testLimit, r.URL+"/in", key, event); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.posts) != 3 {
		t.Fatalf("%d posts", len(r.posts))
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(event)
	for i, h := range r.posts {
		if h.Get(signatureHeader) != "sha256="+hex.EncodeToString(mac.Sum(nil)) || h.Get("Content-Type") != "application/json" ||
			h.Get(deliveryHeader) == "" || h.Get(deliveryHeader) != r.posts[0].Get(deliveryHeader) || r.bodies[i] != string(event) {
			t.Errorf("post %d: %v, %q", i, h, r.bodies[i])
		}
	}
}

// The client gives up on a server that always answers 500. It neither repeats nor follows a
// redirect or a refusal.
func TestPostRefused(t *testing.T) {
	t.Parallel() // it waits most of the time
	for code, want := range map[int]struct {
		posts int
		says  string
	}{
		http.StatusBadGateway:        {maxTries, "502"},
		http.StatusTemporaryRedirect: {1, "no redirection"},
		http.StatusForbidden:         {1, "403"},
	} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, code)
			err := post(testLimit, r.URL+"/in?token=secret", nil, []byte("{}\n"))
			if err == nil || !strings.Contains(err.Error(), want.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.posts) != want.posts {
				t.Errorf("%d posts, want %d", len(r.posts), want.posts)
			}
			for _, h := range r.posts {
				if h.Get(signatureHeader) != "" {
					t.Error("a post without a key is signed")
				}
			}
		})
	}
}

// A URL that never answers ends in a timeout, and the error does not contain the URL.
func TestPostSilent(t *testing.T) {
	t.Parallel() // it waits most of the time
	over := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer silent.Close()
	defer close(over)
	err := post(300*time.Millisecond, silent.URL+"/in?token=secret", nil, []byte("{}\n"))
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
