package s3test

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ServeHTTP records a request, and answers it, unless the hook has answered it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := slices.Sorted(maps.Keys(r.URL.Query()))
	s.mu.Lock()
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+KeyOf(r)+" "+strings.Join(query, "&")))
	s.auth = append(s.auth, r.Header.Get("Authorization"))
	s.running++
	s.most = max(s.most, s.running)
	hook := s.hook
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	}()
	if hook == nil || !hook(w, r) {
		s.Answer(w, r)
	}
}

// Answer answers a request as a server without faults does. A hook may call it.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request) {
	key := KeyOf(r)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if sum := md5.Sum(body); r.Header.Get("Content-Md5") != "" && r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]) {
		Refuse(w, r, 400, "BadDigest")
		return
	}
	q := r.URL.Query()
	s.mu.Lock()
	if (r.Method == "GET" || r.Method == "HEAD") && key != "" && !q.Has("uploadId") {
		o, there := s.objects[key]
		s.mu.Unlock()
		if !there {
			Refuse(w, r, 404, "NoSuchKey")
			return
		}
		o.serve(&countedAnswer{w, s, key}, r)
		return
	}
	defer s.mu.Unlock()
	switch {
	case key == "" && r.Method == "GET" && q.Has("uploads"):
		s.listUploads(w, q)
	case key == "" && r.Method == "GET":
		s.list(w, q)
	case q.Has("uploads") && r.Method == "POST":
		s.beginUpload(w, key)
	case q.Has("uploadId"):
		s.multipart(w, r, key, q, body)
	case r.Method == "PUT" && r.Header.Get("X-Amz-Copy-Source") != "":
		s.copy(w, r, key)
	case r.Method == "PUT":
		if _, there := s.objects[key]; there && r.Header.Get("If-None-Match") == "*" {
			Refuse(w, r, 412, "PreconditionFailed")
			return
		}
		o := NewObject(string(body))
		s.put(key, o)
		w.Header().Set("ETag", `"`+o.ETag+`"`)
	case r.Method == "DELETE":
		s.delete(key)
		w.WriteHeader(204)
	}
}

// copy answers CopyObject. Any bucket name in the source means the bucket of this server. The caller
// holds mu.
func (s *Server) copy(w http.ResponseWriter, r *http.Request, key string) {
	name, err := url.PathUnescape(strings.TrimPrefix(r.Header.Get("X-Amz-Copy-Source"), "/"))
	_, from, _ := strings.Cut(name, "/")
	o, there := s.objects[from]
	switch match := r.Header.Get("X-Amz-Copy-Source-If-Match"); {
	case err != nil || !there:
		Refuse(w, r, 404, "NoSuchKey")
	case match != "" && strings.Trim(match, `"`) != o.ETag:
		Refuse(w, r, 412, "PreconditionFailed")
	default:
		s.put(key, o)
		answerXML(w, struct {
			XMLName      xml.Name `xml:"CopyObjectResult"`
			ETag         string
			LastModified time.Time
		}{ETag: `"` + o.ETag + `"`, LastModified: time.Unix(1_000_000_000, 0).UTC()})
	}
}

// serve answers a GET or HEAD request for an object.
func (o Object) serve(w http.ResponseWriter, r *http.Request) {
	if m := r.Header.Get("If-Match"); m != "" && m != `"`+o.ETag+`"` {
		Refuse(w, r, 412, "PreconditionFailed")
		return
	}
	first, last := int64(0), o.Size-1
	status := 200
	if s, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		a, b, _ := strings.Cut(s, "-")
		first, _ = strconv.ParseInt(a, 10, 64)
		if n, err := strconv.ParseInt(b, 10, 64); err == nil {
			last = min(last, n)
		}
		if first > last {
			Refuse(w, r, 416, "InvalidRange")
			return
		}
		status = 206
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, o.Size))
	}
	w.Header().Set("ETag", `"`+o.ETag+`"`)
	w.Header().Set("Last-Modified", time.Unix(1_000_000_000, 0).UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Length", strconv.FormatInt(last-first+1, 10))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.Copy(w, io.NewSectionReader(o.Content, first, last-first+1))
	}
}

// A countedAnswer is a ResponseWriter that counts how many bytes of an object are sent.
type countedAnswer struct {
	http.ResponseWriter
	server *Server
	key    string
}

func (a *countedAnswer) Write(p []byte) (int, error) {
	n, err := a.ResponseWriter.Write(p)
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	a.server.sent[a.key] += int64(n)
	return n, err
}
