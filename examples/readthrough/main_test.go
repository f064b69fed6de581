package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/tftpclient"
)

// A file that was fetched once is still served after the web server has stopped. A file that was
// never on the web server is not found.
func TestReadThrough(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 300_001)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/boot/kernel" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(content))
	}))
	defer web.Close()
	ctx, stop := context.WithCancel(t.Context())
	addr, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- serve(ctx, web.URL+"/boot/", filepath.Join(t.TempDir(), "cache"), "127.0.0.1:0", func(a string) { addr <- a })
	}()
	base := "tftp://" + <-addr + "/"
	var client tftpclient.Client
	defer client.Wait()
	local := filepath.Join(t.TempDir(), "local")
	if _, err := client.GetFile(ctx, base+"missing", local); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("a missing file: %v", err)
	}
	for _, what := range []string{"with the web server", "without it"} {
		if _, err := client.GetFile(ctx, base+"kernel", local); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got, err := os.ReadFile(local); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes of %d, %v", what, len(got), len(content), err)
		}
		_ = os.Remove(local)
		web.Close()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
