// Package s3test is for tests. It provides an S3 server that keeps its objects in memory, and that
// fails in the ways that a test wants.
package s3test

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Server is an S3 server with one bucket, which clients reach by any bucket name. It does not check
// signatures. Other tests, with versitygw, show that real servers understand haul's requests.
type Server struct {
	*httptest.Server // the HTTP server; nil if the Server was made by NewHandler

	mu       sync.Mutex
	objects  map[string]Object     // the objects of the bucket, by key; guarded by mu
	sorted   []string              // the sorted keys of objects; nil if out of date; guarded by mu
	uploads  map[string]*multipart // unfinished uploads, by ID; guarded by mu
	hook     Hook                  // called for each request; may be nil; guarded by mu
	requests []string              // the requests that Asked will return; guarded by mu
	auth     []string              // the Authorization header of each request; guarded by mu
	sent     map[string]int64      // number of bytes of each object that were sent, by key; guarded by mu
	serial   int                   // number of the latest upload; guarded by mu
	running  int                   // number of requests that are being answered; guarded by mu
	most     int                   // largest value of running so far; guarded by mu
}

// An Object is a file in the bucket.
type Object struct {
	Content io.ReaderAt
	Size    int64
	ETag    string
}

// A Hook is called before the server answers a request. If it has answered the request itself, it
// returns true, and otherwise false.
type Hook func(w http.ResponseWriter, r *http.Request) (over bool)

// New starts a server on localhost, which stops when the test ends.
func New(t testing.TB) *Server {
	s := NewHandler()
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// NewHandler returns a server that is only an [http.Handler], without a listener.
func NewHandler() *Server {
	return &Server{objects: map[string]Object{}, uploads: map[string]*multipart{}, sent: map[string]int64{}}
}

// NewObject returns an object with the given bytes. Its ETag is their MD5.
func NewObject(data string) Object {
	return Object{strings.NewReader(data), int64(len(data)), fmt.Sprintf("%x", md5.Sum([]byte(data)))}
}

// Put creates or replaces an object.
func (s *Server) Put(key, content string) { s.PutObject(key, NewObject(content)) }

// PutObject creates or replaces an object.
func (s *Server) PutObject(key string, o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(key, o)
}

func (s *Server) put(key string, o Object) { s.objects[key], s.sorted = o, nil }

// Delete removes an object.
func (s *Server) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delete(key)
}

func (s *Server) delete(key string) {
	delete(s.objects, key)
	s.sorted = nil
}

// Content returns the content of an object, and false if the object does not exist.
func (s *Server) Content(key string) (string, bool) {
	s.mu.Lock()
	o, there := s.objects[key]
	s.mu.Unlock()
	if !there {
		return "", false
	}
	return o.read(), true
}

func (o Object) read() string {
	b := make([]byte, o.Size)
	_, _ = io.ReadFull(io.NewSectionReader(o.Content, 0, o.Size), b)
	return string(b)
}

// SetHook makes the server call a hook for each request. nil removes the hook.
func (s *Server) SetHook(h Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = h
}

// Fail makes the server refuse the next requests for which match returns true, with an HTTP status,
// an S3 error code, and headers. times is the number of requests to refuse; -1 means all. header
// holds names and values in turn. Fail replaces the hook.
func (s *Server) Fail(times int, match func(*http.Request) bool, status int, code string, header ...string) {
	var left atomic.Int64
	left.Store(int64(times))
	s.SetHook(func(w http.ResponseWriter, r *http.Request) bool {
		if !match(r) || times >= 0 && left.Add(-1) < 0 {
			return false
		}
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		Refuse(w, r, status, code)
		return true
	})
}

// Refuse answers a request with an S3 error.
func Refuse(w http.ResponseWriter, r *http.Request, status int, code string) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>words of the server</Message></Error>", code)
	}
}

// Asked returns the requests since the last call of Asked: for each the method, the key, and the names
// of the query parameters.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.requests
	s.requests = nil
	return list
}

// Signed returns the Authorization headers of all requests so far, which contain the signatures.
func (s *Server) Signed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.auth)
}

// Sent returns how many bytes of an object the server has sent.
func (s *Server) Sent(key string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[key]
}

// Most returns the largest number of requests that were being answered at the same time.
func (s *Server) Most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Rest waits until no request is being answered. A test needs it because the server may still be
// answering requests of a client that has disconnected.
func (s *Server) Rest() {
	for {
		s.mu.Lock()
		n := s.running
		s.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// KeyOf returns the key that a request refers to; "" means the bucket itself.
func KeyOf(r *http.Request) string {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return key
}

func sumOf(etag string) []byte {
	sum, _ := hex.DecodeString(etag)
	return sum
}

// answerXML answers with XML. It ignores the error, which means that the client has disconnected.
func answerXML(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(v)
}
