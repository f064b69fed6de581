package s3

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/s3test"
)

// A testEnv is an environment with its own home directory.
type testEnv map[string]string

func newTestEnv(t *testing.T) testEnv { return testEnv{"HOME": t.TempDir()} }

func (e testEnv) get(key string) string { return e[key] }

func (e testEnv) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(e["HOME"], ".aws", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const testConfig = `# a comment
[default]
region = eu-west-1 ; as a comment
[profile work]
region=eu-central-1
services = here
s3 =
  addressing_style = path
[services here]
s3 =
  endpoint_url = http://127.0.0.1:9
[profile role]
role_arn = arn:aws:iam::1:role/x
`

const testCredentials = `[default]
aws_access_key_id = DEFAULTID
aws_secret_access_key = defaultsecret
[work]
aws_access_key_id=WORKID
aws_secret_access_key=work/secret+==
aws_session_token=worktoken
`

// Keys, region and endpoint are found in the same places, and in the same order, as by the tools of
// AWS.
func TestEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		env                  testEnv
		id, region, endpoint string
		fails                string
	}{
		{"default", testEnv{}, "DEFAULTID", "eu-west-1", "", ""},
		{"profile", testEnv{"AWS_PROFILE": "work"}, "WORKID", "eu-central-1", "http://127.0.0.1:9", ""},
		{"variables", testEnv{"AWS_PROFILE": "work", "AWS_ACCESS_KEY_ID": "ENVID", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "r", "AWS_ENDPOINT_URL": "http://e"}, "ENVID", "r", "http://e", ""},
		{"of S3", testEnv{"AWS_ENDPOINT_URL": "http://e", "AWS_ENDPOINT_URL_S3": "http://s3"}, "DEFAULTID", "eu-west-1", "http://s3", ""},
		{"ignored", testEnv{"AWS_PROFILE": "work", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, "WORKID", "eu-central-1", "", ""},
		{"no such profile", testEnv{"AWS_PROFILE": "none"}, "", "", "", "neither"},
		{"a role", testEnv{"AWS_PROFILE": "role"}, "", "", "", "export-credentials"},
	} {
		env := newTestEnv(t)
		env.write(t, "config", testConfig)
		env.write(t, "credentials", testCredentials)
		maps.Copy(env, tt.env)
		e := newEnvironment(env.get)
		files, err := e.read()
		keys, keysErr := e.keys(t.Context())
		if tt.fails != "" {
			if err = errors.Join(err, keysErr); err == nil || !strings.Contains(err.Error(), tt.fails) || !errors.Is(err, ErrLogin) {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err != nil || keysErr != nil || keys.ID != tt.id || e.region(files) != tt.region || e.endpoint(files) != tt.endpoint {
			t.Errorf("%s: %q, %q, %q; %v, %v", tt.name, keys.ID, e.region(files), e.endpoint(files), err, keysErr)
		}
	}
}

// A file that cannot be parsed causes an error that contains the line number, but not the text of
// the line.
func TestBadFile(t *testing.T) {
	env := newTestEnv(t)
	env.write(t, "credentials", "[default]\naws_access_key_id = A\nsecretsecret\n")
	_, err := New("b12", "", Config{Getenv: env.get})
	if err == nil || !strings.Contains(err.Error(), "line 3") || strings.Contains(err.Error(), "secretsecret") {
		t.Error(err)
	}
}

// New keys in the file are used without a restart.
func TestRenewsKeysOfTheFile(t *testing.T) {
	f := newFake(t)
	f.Put("f", "x")
	env := newTestEnv(t)
	env.write(t, "credentials", testCredentials)
	s := f.store(func(c *Config) { c.Keys, c.Getenv = nil, env.get })
	if _, err := s.Stat(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	env.write(t, "credentials", strings.ReplaceAll(testCredentials, "DEFAULTID", "NEWID"))
	f.SetHook(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.Header.Get("Authorization"), "DEFAULTID/") {
			s3test.Refuse(w, r, 403, "InvalidAccessKeyId")
			return true
		}
		return false
	})
	if _, err := s.Stat(t.Context(), "f"); err != nil {
		t.Error(err)
	}
	// After a short time, new keys are also used if the old keys are still accepted.
	f.SetHook(nil)
	env.write(t, "credentials", strings.ReplaceAll(testCredentials, "DEFAULTID", "THIRDID"))
	for end := time.Now().Add(time.Minute); !strings.Contains(fmt.Sprint(f.Signed()), "THIRDID/"); time.Sleep(50 * time.Millisecond) {
		if _, err := s.Stat(t.Context(), "f"); err != nil || time.Now().After(end) {
			t.Fatalf("the third keys are not used: %v", err)
		}
	}
}

// The metadata service of a cloud has the keys of a machine. They are requested with a token
// (IMDSv2), and again before they expire.
func TestMachineKeys(t *testing.T) {
	var asked, withToken atomic.Int32
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == "PUT":
			_, _ = w.Write([]byte("TOKEN"))
		case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
			_, _ = w.Write([]byte("role"))
		default:
			if r.Header.Get("X-aws-ec2-metadata-token") == "TOKEN" {
				withToken.Add(1)
			}
			asked.Add(1)
			expires := time.Now().Add(renewBefore / 2).UTC().Format(time.RFC3339)
			_, _ = w.Write([]byte(`{"Code":"Success","AccessKeyId":"CLOUDID","SecretAccessKey":"s","Token":"t","Expiration":"` + expires + `"}`))
		}
	}))
	defer cloud.Close()
	f := newFake(t)
	f.Put("f", "x")
	env := newTestEnv(t)
	env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = cloud.URL
	s := f.store(func(c *Config) { c.Keys, c.Getenv = nil, env.get })
	for range 2 {
		if _, err := s.Stat(t.Context(), "f"); err != nil {
			t.Fatal(err)
		}
	}
	if auth := f.Signed(); asked.Load() != 2 || withToken.Load() != 2 || !strings.Contains(auth[len(auth)-1], "CLOUDID/") {
		t.Errorf("asked %d times, %d of them with the token", asked.Load(), withToken.Load())
	}
}

// If the service that has the keys redirects, the token is not sent there.
func TestMachineKeysRedirect(t *testing.T) {
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	cloud := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer cloud.Close()
	f := newFake(t)
	env := newTestEnv(t)
	env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = cloud.URL
	s := f.store(func(c *Config) { c.Keys, c.Getenv = nil, env.get })
	if _, err := s.Stat(t.Context(), "f"); !errors.Is(err, ErrLogin) || asked.Load() > 0 {
		t.Errorf("%v, after %d requests to the other server", err, asked.Load())
	}
}

// A public bucket needs no keys, and the store looks for none.
func TestAnonymous(t *testing.T) {
	f := newFake(t)
	f.Put("f", "x")
	s := f.store(func(c *Config) { c.Keys, c.Anonymous, c.Getenv = nil, true, newTestEnv(t).get })
	if _, err := s.Stat(t.Context(), "f"); err != nil {
		t.Error(err)
	}
	f.Fail(-1, isMethod("HEAD"), 403, "AccessDenied")
	if _, err := s.Stat(t.Context(), "f"); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	if signed := strings.Join(f.Signed(), ""); signed != "" {
		t.Errorf("requests are signed: %s", signed)
	}
}

func TestParseURL(t *testing.T) {
	for _, tt := range []struct{ url, bucket, key string }{
		{"s3://b", "b", ""}, {"s3://b/", "b", ""}, {"s3://b/a/b%20c%3F", "b", "a/b c?"}, {"s3://my.bucket/a+b", "my.bucket", "a+b"},
	} {
		if bucket, key, err := ParseURL(tt.url); bucket != tt.bucket || key != tt.key || err != nil {
			t.Errorf("%s: %q, %q, %v", tt.url, bucket, key, err)
		}
	}
	for _, url := range []string{"s3://", "s3:///a", "s3://id:secret@b/a", "s3://b/a?x", "s3://b/a#x", "s3://b/%00", "s3://b/%zz", "b/a"} {
		if _, _, err := ParseURL(url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, bucket := range []string{"", "a/b", "a\x00", "ab", "a..b", "192.0.2.1"} {
		if _, err := New(bucket, "", Config{}); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("New(%q): %v", bucket, err)
		}
	}
}
