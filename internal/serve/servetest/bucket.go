package servetest

import (
	"bytes"
	"crypto/md5"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Bucket is an S3 server with the bucket "bucket", for tests of those who serve it. It
// checks no signatures, and takes small files only.
type Bucket struct {
	*httptest.Server

	mu      sync.Mutex
	objects map[string]object // mu: by their keys
	faults  map[string]Fault  // mu: by keys
	sent    map[string]int64  // mu: bytes of objects that were sent, by keys
	sorted  []string          // mu: the keys; nil if that is out of date
}

// A Fault answers a request for an object in place of the server, which it may call.
type Fault func(w http.ResponseWriter, r *http.Request, server http.HandlerFunc)

type object struct {
	content io.ReaderAt
	size    int64
	tag     string
}

// NewBucket starts the server, until the test ends.
func NewBucket(t testing.TB) *Bucket {
	b := &Bucket{objects: map[string]object{}, faults: map[string]Fault{}, sent: map[string]int64{}}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

// Env returns the environment by which haul finds the server and has keys for it.
func (b *Bucket) Env() []string {
	return []string{"AWS_ENDPOINT_URL=" + b.URL, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=us-east-1", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_PROFILE=", "AWS_SESSION_TOKEN="}
}

// Put makes an object, or replaces one.
func (b *Bucket) Put(key, content string) {
	b.put(key, object{strings.NewReader(content), int64(len(content)), fmt.Sprintf("%x", md5.Sum([]byte(content)))})
}

// PutLarge makes an object of any size, of which nothing is held in memory.
func (b *Bucket) PutLarge(key string, content io.ReaderAt, size int64) {
	b.put(key, object{content, size, fmt.Sprintf("%x-2", md5.Sum([]byte(key)))})
}

func (b *Bucket) put(key string, o object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[key], b.sorted = o, nil
}

// Break has a fault answer all requests for an object; nil ends that.
func (b *Bucket) Break(key string, f Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults[key] = f
}

// Sent returns how many bytes of an object have left the server.
func (b *Bucket) Sent(key string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent[key]
}

// ServeHTTP answers a request. That for a listing has the key "".
func (b *Bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")
	b.mu.Lock()
	fault := b.faults[key]
	b.mu.Unlock()
	server := func(w http.ResponseWriter, r *http.Request) { b.serve(w, r, key) }
	if fault != nil {
		fault(w, r, server)
		return
	}
	server(w, r)
}

func (b *Bucket) serve(w http.ResponseWriter, r *http.Request, key string) {
	b.mu.Lock()
	o, there := b.objects[key]
	taken := there && r.Header.Get("If-None-Match") == "*"
	b.mu.Unlock()
	switch {
	case key == "":
		b.list(w, r.URL.Query())
	case r.Method == http.MethodPut && taken:
		Refuse(w, r, http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPut:
		var content bytes.Buffer
		if _, err := content.ReadFrom(r.Body); err == nil {
			b.Put(key, content.String())
			w.Header().Set("ETag", fmt.Sprintf(`"%x"`, md5.Sum(content.Bytes())))
		}
	case r.Method == http.MethodDelete:
		b.mu.Lock()
		delete(b.objects, key)
		b.sorted = nil
		b.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case !there:
		Refuse(w, r, http.StatusNotFound, "NoSuchKey")
	default:
		w.Header().Set("ETag", `"`+o.tag+`"`)
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(&countedAnswer{w, b, key}, r, "", time.Unix(1_000_000_000, 0), io.NewSectionReader(o.content, 0, o.size))
	}
}

// A countedAnswer counts what is sent of an object.
type countedAnswer struct {
	http.ResponseWriter
	bucket *Bucket
	key    string
}

func (a *countedAnswer) Write(p []byte) (int, error) {
	n, err := a.ResponseWriter.Write(p)
	a.bucket.mu.Lock()
	defer a.bucket.mu.Unlock()
	a.bucket.sent[a.key] += int64(n)
	return n, err
}

// Refuse answers a request by an error of S3.
func Refuse(w http.ResponseWriter, r *http.Request, status int, code string) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
	}
}

const listPage = 1000 // keys

// list lists keys, as ListObjectsV2 does.
func (b *Bucket) list(w http.ResponseWriter, q url.Values) {
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sorted == nil {
		b.sorted = slices.Sorted(maps.Keys(b.objects))
	}
	after := max(q.Get("continuation-token"), q.Get("start-after"))
	first, _ := slices.BinarySearch(b.sorted, max(after, q.Get("prefix")))
	last := after
	for _, key := range b.sorted[first:] {
		rest, ok := strings.CutPrefix(key, q.Get("prefix"))
		if !ok {
			break
		}
		shown, dir := key, false
		if name, _, below := strings.Cut(rest, "/"); below && q.Get("delimiter") == "/" {
			shown, dir = q.Get("prefix")+name+"/", true
		}
		if shown <= last {
			continue
		}
		if len(answer.Contents)+len(answer.CommonPrefixes) == listPage {
			answer.IsTruncated, answer.NextContinuationToken = true, last
			break
		}
		if last = shown; dir {
			answer.CommonPrefixes = append(answer.CommonPrefixes, prefix{url.QueryEscape(shown)})
		} else {
			answer.Contents = append(answer.Contents, content{url.QueryEscape(key), "2001-09-09T01:46:40.000Z", `"` + b.objects[key].tag + `"`, b.objects[key].size})
		}
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(answer) // whoever asked sees that it is not whole
}
