package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store/s3"
	"github.com/haul-project/haul/tftp/tftpclient"
)

// startBucket starts an S3 server with one object. It supports what reading needs: HEAD, and GET of ranges.
func startBucket(t *testing.T, path string, object []byte) s3.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=me/") {
			t.Errorf("%s %s is not signed", r.Method, r.URL)
		}
		if r.URL.Path != path {
			w.Header().Set("Content-Type", "application/xml")
			if r.URL.Query().Has("list-type") {
				fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
				return
			}
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
			return
		}
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(object))
	}))
	t.Cleanup(server.Close)
	keys := func(context.Context) (s3.Keys, error) { return s3.Keys{ID: "me", Secret: "secret"}, nil }
	return s3.Config{Endpoint: server.URL, Region: "us-east-1", Keys: keys}
}

// A TFTP client gets an object of the bucket, and an error for an object that does not exist.
func TestBucket(t *testing.T) {
	object := bytes.Repeat([]byte("0123456789"), 300_001)
	c := startBucket(t, "/images/boot/kernel", object)
	ctx, stop := context.WithCancel(t.Context())
	addr, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- serve(ctx, "s3://images/boot", "127.0.0.1:0", c, func(a string) { addr <- a })
	}()
	base := "tftp://" + <-addr + "/"
	var client tftpclient.Client
	local := filepath.Join(t.TempDir(), "local")
	if _, err := client.GetFile(ctx, base+"kernel", local); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(local); err != nil || !bytes.Equal(got, object) {
		t.Errorf("%d bytes of %d, %v", len(got), len(object), err)
	}
	if _, err := client.GetFile(ctx, base+"missing", local+"2"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("a missing object: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
