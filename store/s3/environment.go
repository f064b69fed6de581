package s3

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// maxConfigFile is the size, in bytes, of the largest file of the AWS tools that is read.
const maxConfigFile = 1 << 20

// lookPause is the shortest time between two checks whether the files have changed.
const lookPause = time.Second

// A section is a section of a file of the AWS tools, and maps names to settings. A setting that is
// nested in another one has both names: endpoint_url of s3 has the name "s3.endpoint_url".
type section map[string]string

// An environment reads the settings of the AWS tools: variables and files.
type environment struct {
	get     func(key string) string
	home    string
	machine func(context.Context) (Keys, error)

	mu     sync.Mutex
	states [2]string // sizes and times of the files when they were last read; guarded by mu
	seen   [2]string // sizes and times of the files when they were last checked; guarded by mu
	looked time.Time // time of the last check; guarded by mu
}

func newEnvironment(get func(string) string) *environment {
	if get == nil {
		get = os.Getenv
	}
	e := &environment{get: get, home: get("HOME")}
	if e.home == "" {
		e.home, _ = os.UserHomeDir()
	}
	e.machine = e.machineKeys()
	return e
}

// paths returns the paths of the credentials file and of the settings file. A path that is not
// known is "".
func (e *environment) paths() [2]string {
	path := func(variable, name string) string {
		if p := e.get(variable); p != "" {
			return p
		}
		if e.home == "" {
			return ""
		}
		return filepath.Join(e.home, ".aws", name)
	}
	return [2]string{path("AWS_SHARED_CREDENTIALS_FILE", "credentials"), path("AWS_CONFIG_FILE", "config")}
}

func (e *environment) profile() string {
	if p := e.get("AWS_PROFILE"); p != "" {
		return p
	}
	if p := e.get("AWS_DEFAULT_PROFILE"); p != "" {
		return p
	}
	return "default"
}

// awsFiles holds the sections that apply to the profile: those of the credentials file and of the
// settings file, and the services section that the settings name.
type awsFiles struct{ credentials, config, services section }

// read reads the credentials file and the settings file. A missing file counts as empty. But if a
// profile was requested, at least one of the files must contain it.
func (e *environment) read() (f awsFiles, err error) {
	e.mu.Lock()
	e.states = e.look()
	e.seen = e.states
	e.mu.Unlock()
	paths, profile := e.paths(), e.profile()
	credentials, err := readSections(paths[0])
	if err != nil {
		return f, err
	}
	config, err := readSections(paths[1])
	if err != nil {
		return f, err
	}
	f.credentials, f.config = credentials[profile], config["profile "+profile]
	if profile == "default" && f.config == nil {
		f.config = config["default"]
	}
	if f.credentials == nil && f.config == nil && (e.get("AWS_PROFILE") != "" || e.get("AWS_DEFAULT_PROFILE") != "") {
		return f, fmt.Errorf("%w: AWS_PROFILE is %q, and neither %s nor %s has that profile", ErrLogin, profile, paths[0], paths[1])
	}
	f.services = config["services "+f.config["services"]]
	return f, nil
}

// look returns the sizes and times of the files, by which changes can be recognized.
func (e *environment) look() (states [2]string) {
	for i, p := range e.paths() {
		if fi, err := os.Stat(p); err == nil {
			states[i] = fmt.Sprint(fi.Size(), fi.ModTime().UnixNano())
		}
	}
	return states
}

// changed reports whether the files have changed since they were read. It returns true until they
// are read again, because package minio calls it twice.
func (e *environment) changed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.looked) >= lookPause {
		e.looked, e.seen = time.Now(), e.look()
	}
	return e.seen != e.states
}

// endpoint returns the URL of the server that is configured, or "" if Amazon is to be used.
func (e *environment) endpoint(f awsFiles) string {
	if e.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") == "true" {
		return ""
	}
	for _, u := range []string{e.get("AWS_ENDPOINT_URL_S3"), e.get("AWS_ENDPOINT_URL"), f.services["s3.endpoint_url"], f.config["s3.endpoint_url"], f.config["endpoint_url"]} {
		if u != "" {
			return u
		}
	}
	return ""
}

func (e *environment) region(f awsFiles) string {
	for _, r := range []string{e.get("AWS_REGION"), e.get("AWS_DEFAULT_REGION"), f.config["region"]} {
		if r != "" {
			return r
		}
	}
	return ""
}

// CredentialFiles returns the paths of the files that may contain keys and settings: the files of
// the AWS tools, and the files with the tokens by which a container gets its keys. A store reads
// them again while it is in use. get is used like [Config.Getenv].
func CredentialFiles(get func(string) string) []string {
	p := newEnvironment(get).paths()
	files := slices.DeleteFunc(p[:], func(name string) bool { return name == "" })
	return append(files, variables("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")...)
}

// CredentialServers returns the URLs of the services that are configured to provide keys to this
// machine or container.
func CredentialServers() []string {
	return variables("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_EC2_METADATA_SERVICE_ENDPOINT")
}

// variables returns the values of the given environment variables, without those that are not set.
func variables(names ...string) (values []string) {
	for _, name := range names {
		if v := os.Getenv(name); v != "" {
			values = append(values, v)
		}
	}
	return values
}

// readSections reads a file of the AWS tools. Its errors do not contain any text from the file,
// which may be secret.
func readSections(path string) (map[string]section, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err == nil && len(text) > maxConfigFile {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("more than %d bytes", maxConfigFile)}
	}
	if err != nil {
		return nil, err
	}
	sections, line := parseSections(text)
	if line > 0 {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("line %d is neither a [section] nor a setting such as region = us-east-1", line)}
	}
	return sections, nil
}

// parseSections parses the text of a file. If a line is invalid, `wrong` is the number of the first
// such line; otherwise it is 0.
func parseSections(text []byte) (sections map[string]section, wrong int) {
	sections = map[string]section{}
	var in section
	above := ""
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, maxConfigFile+1)
	for n := 1; s.Scan(); n++ {
		line := s.Text()
		trimmed := strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		switch {
		case trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';':
			continue
		case trimmed[0] == '[':
			name, _, ok := strings.Cut(trimmed[1:], "]")
			if !ok {
				return nil, n
			}
			name = strings.Join(strings.Fields(strings.ReplaceAll(name, `"`, "")), " ")
			if in = sections[name]; in == nil {
				in = section{}
				sections[name] = in
			}
			above = ""
			continue
		}
		key, value, ok := strings.Cut(trimmed, "=")
		if !ok || in == nil {
			return nil, n
		}
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(uncomment(value))
		indented := line[0] == ' ' || line[0] == '\t'
		switch {
		case indented && above != "":
			in[above+"."+key] = value
			continue
		case value == "":
			above = key
		default:
			above = ""
		}
		in[key] = value
	}
	return sections, 0
}

// uncomment removes a comment that follows a value on the same line.
func uncomment(value string) string {
	for _, mark := range []string{" #", " ;", "\t#", "\t;"} {
		value, _, _ = strings.Cut(value, mark)
	}
	return value
}

// machineKeys returns a function that gets the keys of this machine or container from the service
// of the cloud.
func (e *environment) machineKeys() func(context.Context) (Keys, error) {
	iam := &credentials.IAM{
		Endpoint: e.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
		Client: &http.Client{Timeout: keysTimeout, Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: metadataTimeout}).DialContext, ResponseHeaderTimeout: keysTimeout, MaxResponseHeaderBytes: maxHeader,
			IdleConnTimeout: maxIdle,
		},
			// The requests have a token. Only the service itself may receive it.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	return func(ctx context.Context) (Keys, error) {
		v, err := iam.RetrieveWithCredContext(&credentials.CredContext{Client: iam.Client, Context: ctx})
		if err != nil {
			return Keys{}, fmt.Errorf("%w; the service that has those of a machine: %w", errNoKeys, plain(err))
		}
		return Keys{ID: v.AccessKeyID, Secret: v.SecretAccessKey, Token: v.SessionToken, Expires: v.Expiration}, nil
	}
}

// errNoKeys says that no keys were found.
var errNoKeys = fmt.Errorf("%w: no access keys were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile of ~/.aws/credentials", ErrLogin)

// keys returns the keys from the environment: from the variables, the files, or the cloud's
// service.
func (e *environment) keys(ctx context.Context) (Keys, error) {
	if id, secret := e.get("AWS_ACCESS_KEY_ID"), e.get("AWS_SECRET_ACCESS_KEY"); id != "" && secret != "" {
		return Keys{ID: id, Secret: secret, Token: e.get("AWS_SESSION_TOKEN")}, nil
	}
	files, err := e.read()
	if err != nil {
		return Keys{}, err
	}
	for _, p := range []section{files.credentials, files.config} {
		if id, secret := p["aws_access_key_id"], p["aws_secret_access_key"]; id != "" && secret != "" {
			return Keys{ID: id, Secret: secret, Token: p["aws_session_token"]}, nil
		}
	}
	for _, p := range []section{files.credentials, files.config} {
		for _, kind := range []string{"role_arn", "sso_session", "sso_start_url", "credential_process"} {
			if p[kind] != "" {
				return Keys{}, fmt.Errorf("%w: the profile %q has %s, which haul does not follow: eval \"$(aws configure export-credentials --format env)\" sets the keys that come of it", ErrLogin, e.profile(), kind)
			}
		}
	}
	if e.get("AWS_EC2_METADATA_DISABLED") == "true" {
		return Keys{}, errNoKeys
	}
	return e.machine(ctx)
}
