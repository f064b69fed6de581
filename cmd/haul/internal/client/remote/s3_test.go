package remote

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// A fingerprint is refused for a bucket whose server has no certificate, just as for an http URL.
func TestS3Fingerprint(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, v := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(v, none)
	}
	l, err := Parse("s3://bucket/key")
	if err != nil {
		t.Fatal(err)
	}
	for endpoint, refused := range map[string]bool{"http://127.0.0.1:1": true, "https://127.0.0.1:1": false} {
		t.Setenv("AWS_ENDPOINT_URL_S3", endpoint)
		s := New(Config{Web: WebConfig{Fingerprint: strings.Repeat("0", 64)}, Say: func(string) {}})
		_, err := s.Connect(t.Context(), l, Intent{})
		s.Close()
		if refused != errors.Is(err, failure.Usage) || refused && !strings.Contains(err.Error(), "127.0.0.1:1 shows no certificate over http") || !refused && err != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}
