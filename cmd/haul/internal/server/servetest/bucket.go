package servetest

import (
	"net/http"
	"sync"
	"testing"

	"github.com/haul-project/haul/internal/s3test"
)

// A Bucket is an S3 server with the bucket "bucket", for tests of code that serves its objects.
type Bucket struct {
	*s3test.Server

	mu     sync.Mutex
	faults map[string]Fault // by the keys of objects; guarded by mu
}

// A Fault answers a request for an object in place of the server, which it may call.
type Fault func(w http.ResponseWriter, r *http.Request, server http.HandlerFunc)

// NewBucket starts the server of a Bucket. The server stops when the test ends.
func NewBucket(t testing.TB) *Bucket {
	b := &Bucket{Server: s3test.New(t), faults: map[string]Fault{}}
	b.SetHook(func(w http.ResponseWriter, r *http.Request) bool {
		b.mu.Lock()
		fault := b.faults[s3test.KeyOf(r)]
		b.mu.Unlock()
		if fault != nil {
			fault(w, r, b.Answer)
		}
		return fault != nil
	})
	return b
}

// Env returns the environment variables with which haul finds the server, and keys that the server
// accepts.
func (b *Bucket) Env() []string {
	return []string{"AWS_ENDPOINT_URL=" + b.URL, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=us-east-1", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_PROFILE=", "AWS_SESSION_TOKEN="}
}

// Break makes a fault answer all requests for an object. A nil fault makes the server answer again.
// The key "" stands for requests that list objects.
func (b *Bucket) Break(key string, f Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults[key] = f
}
