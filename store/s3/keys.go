package s3

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	// renewBefore is how long before they expire keys are renewed.
	renewBefore = time.Minute

	// renewPause is the shortest time between two requests for new keys after a refusal.
	renewPause = 10 * time.Second

	// keysTimeout bounds how long the cloud's service that provides keys may take to answer.
	keysTimeout = 5 * time.Second

	// metadataTimeout bounds how long a connection to that service may take: outside of a cloud,
	// nothing has its address.
	metadataTimeout = 2 * time.Second
)

// Keys are the keys that sign requests. They print as "(secret)".
type Keys struct {
	ID, Secret string
	Token      string    // of a session; "" for none
	Expires    time.Time // zero for keys that do not expire
}

// String returns "(secret)", to keep the keys out of logs.
func (Keys) String() string { return "(secret)" }

// GoString returns "(secret)", to keep the keys out of logs.
func (Keys) GoString() string { return "(secret)" }

// A signer provides package minio with keys, and renews them.
type signer struct {
	get     func(ctx context.Context) (Keys, error)
	changed func() bool // reports whether the source of the keys has changed; nil if it never changes
	creds   *credentials.Credentials

	// Guarded by the lock of creds:
	keys Keys

	asked   atomic.Int64 // how often keys were received that differ from the previous ones
	renewed atomic.Int64 // when renew last asked for keys, in Unix nanoseconds
}

func newSigner(get func(context.Context) (Keys, error), changed func() bool) *signer {
	g := &signer{get: get, changed: changed}
	g.creds = credentials.New(g)
	return g
}

// RetrieveWithCredContext returns the keys. Package minio holds a lock while it runs.
func (g *signer) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	ctx := context.Background()
	if cc != nil && cc.Context != nil {
		ctx = cc.Context
	}
	ctx, cancel := context.WithTimeout(ctx, 2*keysTimeout)
	defer cancel()
	keys, err := g.get(ctx)
	if err == nil && (keys.ID == "" || keys.Secret == "") {
		err = fmt.Errorf("%w: they are empty", ErrLogin)
	}
	if err != nil && g.keys.ID != "" && (g.keys.Expires.IsZero() || time.Now().Before(g.keys.Expires)) {
		keys, err = g.keys, nil // for example, while the file is being written
	}
	if err != nil {
		return credentials.Value{}, err
	}
	if keys != g.keys {
		g.asked.Add(1)
	}
	g.keys = keys
	return credentials.Value{
		AccessKeyID: keys.ID, SecretAccessKey: keys.Secret, SessionToken: keys.Token, Expiration: keys.Expires,
		SignerType: credentials.SignatureV4,
	}, nil
}

// Retrieve is for callers of the old interface.
func (g *signer) Retrieve() (credentials.Value, error) { return g.RetrieveWithCredContext(nil) }

// IsExpired reports whether the keys must be renewed.
func (g *signer) IsExpired() bool {
	soon := !g.keys.Expires.IsZero() && time.Until(g.keys.Expires) < renewBefore
	return soon || g.changed != nil && g.changed()
}

// renew asks for new keys after a request was refused, and reports whether the keys now differ from
// those of the request. before is the value of asked at the time of the request.
func (g *signer) renew(ctx context.Context, before int64) bool {
	if g.get == nil {
		return false
	}
	if g.asked.Load() != before {
		return true
	}
	last, now := g.renewed.Load(), time.Now().UnixNano()
	if now-last < int64(renewPause) || !g.renewed.CompareAndSwap(last, now) {
		return false
	}
	g.creds.Expire()
	_, err := g.creds.GetWithContext(&credentials.CredContext{Client: http.DefaultClient, Context: ctx})
	return err == nil && g.asked.Load() != before
}

// machineKeys returns a function that gets the keys of this machine or container from the cloud's
// service.
func (e *environment) machineKeys() func(context.Context) (Keys, error) {
	iam := &credentials.IAM{
		Endpoint: e.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
		Client: &http.Client{Timeout: keysTimeout, Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: metadataTimeout}).DialContext, ResponseHeaderTimeout: keysTimeout, MaxResponseHeaderBytes: maxHeader,
			IdleConnTimeout: maxIdle,
		}},
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
var errNoKeys = fmt.Errorf("%w: there are none: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile of ~/.aws/credentials", ErrLogin)

// keys returns the keys of the environment.
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
