package s3_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/haul-project/haul/store/s3"
)

// Read an object of a bucket. Without Endpoint, Region and Keys, they are taken from the places
// where the tools of AWS find them.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Unix(1e9, 0), strings.NewReader("the object "+r.URL.Path))
	}))
	defer server.Close()
	keys := func(context.Context) (s3.Keys, error) { return s3.Keys{ID: "me", Secret: "secret"}, nil }
	bucket, prefix, err := s3.ParseURL("s3://images/boot")
	if err != nil {
		log.Fatal(err)
	}
	files, err := s3.New(bucket, prefix, s3.Config{Endpoint: server.URL, Region: "us-east-1", Keys: keys})
	if err != nil {
		log.Fatal(err)
	}
	defer files.Close()

	f, err := files.Open(context.Background(), "kernel")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1000))
	fmt.Printf("%s, %v\n", b, err)
	// Output: the object /images/boot/kernel, <nil>
}
