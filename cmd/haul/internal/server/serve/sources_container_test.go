//go:build linux

package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
)

// The confinement keeps what haul needs for a bucket in a container: the service with the keys, on
// any port; the current token for that service; and a proxy.
func TestServeBucketInContainer(t *testing.T) {
	b := servetest.NewBucket(t) // it is the proxy, too
	b.Put("f", "content")
	token := filepath.Join(t.TempDir(), "token")
	servetest.WriteFile(t, token, "first")
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, err := os.ReadFile(token)
		if err != nil || r.Header.Get("Authorization") != string(now) {
			http.Error(w, "another token", http.StatusUnauthorized)
			return
		}
		// The keys expire so soon that each request needs new ones.
		fmt.Fprintf(w, `{"AccessKeyId": "id", "SecretAccessKey": "sesame", "Token": "open", "Expiration": %q}`, time.Now().Add(10*time.Second).Format(time.RFC3339))
	}))
	defer keys.Close()
	env := append(bucketEnv(b), "AWS_ENDPOINT_URL=http://store.invalid", "HTTP_PROXY="+b.URL, "http_proxy="+b.URL, "NO_PROXY=", "no_proxy=",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI="+keys.URL+"/keys", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="+token)
	s := startSourceServer(t, "s3://bucket/", t.TempDir(), "", env...)
	servetest.Eventually(t, "it is confined, or says why not", func() bool { return strings.Contains(s.log.String(), "msg=confined") })
	servetest.WriteFile(t, token, "second")
	s.want("GET", "/f", "", http.StatusOK, "content")
	if strings.Contains(s.log.String(), "sesame") {
		t.Error("the log has the key")
	}
}
