package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A webLab is a web server for a directory in this process.
type webLab struct {
	*httptest.Server
	t    *testing.T
	dir  string // the served directory
	home string // the user's home directory

	mu   sync.Mutex
	hook func(w http.ResponseWriter, r *http.Request) bool // guarded by mu: answers in place of the server
	sent int64                                             // guarded by mu: bytes of files
}

// startWeb serves a new directory with the given files.
func startWeb(t *testing.T, files map[string]string) *webLab {
	t.Helper()
	l := newWeb(t, files)
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Server.Close)
	return l
}

func newWeb(t *testing.T, files map[string]string) *webLab {
	t.Helper()
	l := &webLab{t: t, dir: t.TempDir(), home: t.TempDir()}
	for name, content := range files {
		writeFile(t, filepath.Join(l.dir, name), content)
	}
	return l
}

// startSecureWeb serves over TLS and HTTP/2.
func startSecureWeb(t *testing.T, files map[string]string) *webLab {
	t.Helper()
	l := newWeb(t, files)
	l.Server = httptest.NewUnstartedServer(l)
	l.EnableHTTP2 = true
	l.Config.ErrorLog = log.New(io.Discard, "", 0)
	l.StartTLS()
	t.Cleanup(l.Server.Close)
	return l
}

// setHook sets a hook. If it returns true, it has answered the request.
func (l *webLab) setHook(hook func(w http.ResponseWriter, r *http.Request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hook = hook
}

func (l *webLab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	hook := l.hook
	l.mu.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	name := filepath.Join(l.dir, filepath.FromSlash(strings.Trim(r.URL.Path, "/")))
	fi, err := os.Stat(name)
	switch {
	case r.Method == http.MethodPut:
		l.put(w, r, name)
	case err != nil:
		http.NotFound(w, r)
	case r.Method == http.MethodDelete:
		if err := os.Remove(name); err != nil {
			w.WriteHeader(http.StatusConflict)
		}
	case fi.IsDir() && !strings.HasSuffix(r.URL.Path, "/"):
		w.Header().Set("Location", filepath.Base(name)+"/")
		w.WriteHeader(http.StatusMovedPermanently)
	case fi.IsDir():
		l.list(w, name)
	default:
		l.serve(w, r, name, fi.ModTime())
	}
}

// serve answers with a file. The ETag is the file's hash.
func (l *webLab) serve(w http.ResponseWriter, r *http.Request, name string, modified time.Time) {
	content, err := os.ReadFile(name)
	if err != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	sum := sha256.Sum256(content)
	w.Header().Set("ETag", fmt.Sprintf("%q", base64.StdEncoding.EncodeToString(sum[:])))
	if r.Header.Get("Want-Repr-Digest") != "" {
		w.Header().Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(&countingWriter{w, l}, r, "", modified, bytes.NewReader(content))
}

// A countingWriter counts the bytes sent of files.
type countingWriter struct {
	http.ResponseWriter
	l *webLab
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.l.mu.Lock()
	c.l.sent += int64(n)
	c.l.mu.Unlock()
	return n, err
}

func (l *webLab) list(w http.ResponseWriter, dir string) {
	type entry struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		Size  int64  `json:"size"`
		Mtime string `json:"mtime"`
	}
	list := []entry{}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		fi, e := e.Info()
		if e != nil {
			continue
		}
		one := entry{fi.Name(), "file", fi.Size(), fi.ModTime().UTC().Format(time.RFC3339)}
		if fi.IsDir() {
			one.Type, one.Size = "directory", 0
		}
		list = append(list, one)
	}
	if err != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

func (l *webLab) put(w http.ResponseWriter, r *http.Request, name string) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		http.Error(w, "there is no such directory", http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// must runs a command that must succeed, and returns its standard output.
func (l *webLab) must(args ...string) string {
	l.t.Helper()
	code, out, msg := haul(l.t, args...)
	if code != 0 {
		l.t.Fatalf("haul %q: exit code %d, %s", args, code, msg)
	}
	return out
}

// sentBytes returns the number of bytes sent of files.
func (l *webLab) sentBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}
