package s3

import (
	"cmp"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A fake is an S3 server in memory, for faults. It checks no signatures. versitygw is
// what shows that real servers understand the requests.
type fake struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex
	objects  map[string]*object                                       // mu
	uploads  map[string]*multipart                                    // mu: by their IDs
	hook     func(w http.ResponseWriter, r *http.Request) (over bool) // mu: answers in its place
	requests []string                                                 // mu: method, key and query, without the values
	auth     []string                                                 // mu: the headers that sign
	serial   int                                                      // mu
	running  int                                                      // mu: requests that are being answered
}

// An object has its content by a function, so that it may be large.
type object struct {
	size int64
	etag string
	at   func(off int64) byte // nil if data has it
	data []byte
}

type multipart struct {
	key   string
	parts map[int]*object
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, objects: map[string]*object{}, uploads: map[string]*multipart{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Server.Close)
	return f
}

// store returns a store of the fake that does not wait long.
func (f *fake) store(change ...func(*Config)) *Store {
	f.t.Helper()
	c := Config{Endpoint: f.URL, Region: "us-east-1", Keys: testKeys.get, AnswerTimeout: 5 * time.Second, StallTimeout: 5 * time.Second}
	for _, g := range change {
		g(&c)
	}
	s := newStore(f.t, "", c)
	s.pause = time.Millisecond
	return s
}

func (f *fake) setHook(h func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = h
}

// fail answers the first requests that match by a status and a code; all of them if
// times is -1.
func (f *fake) fail(times int, match func(*http.Request) bool, status int, code string, header ...string) {
	var left atomic.Int64
	left.Store(int64(times))
	f.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if !match(r) || times >= 0 && left.Add(-1) < 0 {
			return false
		}
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		refuse(w, r, status, code)
		return true
	})
}

func isMethod(method string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method }
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code string) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>words of the server</Message></Error>", code)
	}
}

func (f *fake) put(key, content string) { f.putObject(key, newObject([]byte(content))) }

func (f *fake) putObject(key string, o *object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[key] = o
}

func (f *fake) content(key string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.objects[key]
	if o == nil {
		return "", false
	}
	return string(o.data), true
}

func newObject(data []byte) *object {
	sum := md5.Sum(data)
	return &object{size: int64(len(data)), etag: hex.EncodeToString(sum[:]), data: data}
}

func (f *fake) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.requests
	f.requests = nil
	return list
}

// rest waits until no request is being answered: a client that is gone may have left some.
func (f *fake) rest() {
	for {
		f.mu.Lock()
		n := f.running
		f.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// uploadsLeft returns the number of uploads that are neither complete nor aborted.
func (f *fake) uploadsLeft() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.uploads)
}

// signed returns the headers that sign requests.
func (f *fake) signed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.auth)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/b12"), "/")
	query := slices.Sorted(maps.Keys(r.URL.Query()))
	f.mu.Lock()
	f.requests = append(f.requests, strings.TrimSpace(r.Method+" "+key+" "+strings.Join(query, "&")))
	f.auth = append(f.auth, r.Header.Get("Authorization"))
	f.running++
	hook := f.hook
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.running--
		f.mu.Unlock()
	}()
	if hook != nil && hook(w, r) {
		return
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return
		}
	}
	if sum := md5.Sum(body); r.Header.Get("Content-Md5") != "" && r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]) {
		refuse(w, r, 400, "BadDigest")
		return
	}
	q := r.URL.Query()
	f.mu.Lock()
	if (r.Method == "GET" || r.Method == "HEAD") && key != "" && !q.Has("uploadId") {
		o := f.objects[key]
		f.mu.Unlock()
		o.serve(w, r)
		return
	}
	defer f.mu.Unlock()
	switch {
	case key == "" && r.Method == "GET" && q.Has("uploads"):
		f.listUploads(w, q)
	case key == "" && r.Method == "GET":
		f.list(w, q)
	case q.Has("uploads") && r.Method == "POST":
		f.serial++
		id := fmt.Sprint("upload-", f.serial)
		f.uploads[id] = &multipart{key, map[int]*object{}}
		answer := struct {
			XMLName xml.Name `xml:"InitiateMultipartUploadResult"`
			ID      string   `xml:"UploadId"`
		}{ID: id}
		f.xml(w, answer)
	case q.Has("uploadId"):
		f.multipart(w, r, key, q, body)
	case r.Method == "PUT":
		if r.Header.Get("If-None-Match") == "*" && f.objects[key] != nil {
			refuse(w, r, 412, "PreconditionFailed")
			return
		}
		o := newObject(body)
		f.objects[key] = o
		w.Header().Set("ETag", `"`+o.etag+`"`)
	case r.Method == "DELETE":
		delete(f.objects, key)
		w.WriteHeader(204)
	}
}

func (f *fake) multipart(w http.ResponseWriter, r *http.Request, key string, q url.Values, body []byte) {
	m := f.uploads[q.Get("uploadId")]
	if m == nil || m.key != key {
		refuse(w, r, 404, "NoSuchUpload")
		return
	}
	switch r.Method {
	case "PUT":
		n, _ := strconv.Atoi(q.Get("partNumber"))
		m.parts[n] = newObject(body)
		w.Header().Set("ETag", `"`+m.parts[n].etag+`"`)
	case "DELETE":
		delete(f.uploads, q.Get("uploadId"))
		w.WriteHeader(204)
	case "GET":
		type part struct {
			PartNumber int
			ETag       string
			Size       int64
		}
		var answer struct {
			XMLName xml.Name `xml:"ListPartsResult"`
			Part    []part
		}
		for _, n := range slices.Sorted(maps.Keys(m.parts)) {
			answer.Part = append(answer.Part, part{n, `"` + m.parts[n].etag + `"`, m.parts[n].size})
		}
		f.xml(w, answer)
	case "POST":
		f.complete(w, r, key, q.Get("uploadId"), m, body)
	}
}

func (f *fake) complete(w http.ResponseWriter, r *http.Request, key, id string, m *multipart, body []byte) {
	var list struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.Unmarshal(body, &list); err != nil {
		refuse(w, r, 400, "MalformedXML")
		return
	}
	if r.Header.Get("If-None-Match") == "*" && f.objects[key] != nil {
		refuse(w, r, 412, "PreconditionFailed")
		return
	}
	whole, sums := &object{data: []byte{}}, md5.New()
	for i, p := range list.Part {
		have := m.parts[p.PartNumber]
		if have == nil || strings.Trim(p.ETag, `"`) != have.etag || i < len(list.Part)-1 && have.size < 5<<20 {
			refuse(w, r, 400, "InvalidPart")
			return
		}
		whole.data = append(whole.data, have.data...)
		sum, _ := hex.DecodeString(have.etag)
		sums.Write(sum)
	}
	whole.size, whole.etag = int64(len(whole.data)), fmt.Sprintf("%x-%d", sums.Sum(nil), len(list.Part))
	f.objects[key] = whole
	delete(f.uploads, id)
	f.xml(w, struct {
		XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket, Key, ETag string
	}{Bucket: "b12", Key: key, ETag: whole.etag})
}

// serve answers a GET or HEAD; o is nil if there is no such object.
func (o *object) serve(w http.ResponseWriter, r *http.Request) {
	if o == nil {
		refuse(w, r, 404, "NoSuchKey")
		return
	}
	if m := r.Header.Get("If-Match"); m != "" && m != `"`+o.etag+`"` {
		refuse(w, r, 412, "PreconditionFailed")
		return
	}
	first, last := int64(0), o.size-1
	status := 200
	if s, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		a, b, _ := strings.Cut(s, "-")
		first, _ = strconv.ParseInt(a, 10, 64)
		last, _ = strconv.ParseInt(b, 10, 64)
		last = min(last, o.size-1)
		if first > last {
			refuse(w, r, 416, "InvalidRange")
			return
		}
		status = 206
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, o.size))
	}
	w.Header().Set("ETag", `"`+o.etag+`"`)
	w.Header().Set("Last-Modified", time.Unix(1_000_000_000, 0).UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Length", strconv.FormatInt(last-first+1, 10))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if o.at == nil {
		_, _ = w.Write(o.data[first : last+1])
		return
	}
	buf := make([]byte, 32<<10)
	for off := first; off <= last; {
		n := min(int64(len(buf)), last+1-off)
		for i := range buf[:n] {
			buf[i] = o.at(off + int64(i))
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return
		}
		off += n
	}
}

// list lists keys, as ListObjectsV2 does.
func (f *fake) list(w http.ResponseWriter, q url.Values) {
	type content struct {
		Key, LastModified, ETag string
		Size                    int64
	}
	type prefix struct{ Prefix string }
	var answer struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		EncodingType          string
		IsTruncated           bool
		NextContinuationToken string
		Contents              []content
		CommonPrefixes        []prefix
	}
	answer.EncodingType = "url"
	most := 1000
	if n, err := strconv.Atoi(q.Get("max-keys")); err == nil {
		most = n
	}
	after := cmp.Or(q.Get("continuation-token"), q.Get("start-after"))
	last := ""
	for _, k := range slices.Sorted(maps.Keys(f.objects)) {
		rest, ok := strings.CutPrefix(k, q.Get("prefix"))
		if !ok {
			continue
		}
		shown, dir := k, false
		if d := q.Get("delimiter"); d != "" {
			if i := strings.Index(rest, d); i >= 0 {
				shown, dir = q.Get("prefix")+rest[:i+1], true
			}
		}
		if k <= after || shown == last || dir && q.Has("continuation-token") && shown <= after {
			continue
		}
		if len(answer.Contents)+len(answer.CommonPrefixes) == most {
			answer.IsTruncated, answer.NextContinuationToken = true, last
			break
		}
		last = shown
		if dir {
			answer.CommonPrefixes = append(answer.CommonPrefixes, prefix{url.QueryEscape(shown)})
		} else {
			answer.Contents = append(answer.Contents, content{url.QueryEscape(k), "2001-09-09T01:46:40.000Z", `"` + f.objects[k].etag + `"`, f.objects[k].size})
		}
	}
	f.xml(w, answer)
}

func (f *fake) listUploads(w http.ResponseWriter, q url.Values) {
	type upload struct {
		Key, Initiated string
		ID             string `xml:"UploadId"`
	}
	var answer struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Upload  []upload
	}
	for id, m := range f.uploads {
		if strings.HasPrefix(m.key, q.Get("prefix")) {
			answer.Upload = append(answer.Upload, upload{m.key, "2001-09-09T01:46:40.000Z", id})
		}
	}
	f.xml(w, answer)
}

func (f *fake) xml(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/xml")
	if err := xml.NewEncoder(w).Encode(v); err != nil {
		f.t.Error(err)
	}
}
