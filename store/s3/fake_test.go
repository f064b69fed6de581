package s3

import (
	"net/http"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/s3test"
)

// A fake is an S3 server in memory, with the bucket "b12".
type fake struct {
	*s3test.Server
	t testing.TB
}

func newFake(t testing.TB) *fake { return &fake{s3test.New(t), t} }

// store returns a store of the fake with short waiting times.
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

func isMethod(method string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method }
}
