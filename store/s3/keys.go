package s3

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	// renewBefore is the time before the keys expire at which they are renewed.
	renewBefore = time.Minute

	// renewPause is the shortest time between two requests for new keys after a refusal.
	renewPause = 10 * time.Second

	// keysTimeout limits how long the cloud's service that provides keys may take to answer.
	keysTimeout = 5 * time.Second

	// metadataTimeout limits how long connecting to the cloud's service for keys may take. Outside
	// of a cloud, nothing answers at the address of this service.
	metadataTimeout = 2 * time.Second
)

// Keys are the keys that sign requests. They are printed as "(secret)".
type Keys struct {
	ID, Secret string
	Token      string    // session token; "" if there is no session
	Expires    time.Time // zero if the keys do not expire
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

	// keys is guarded by the lock of creds.
	keys Keys

	asked   atomic.Int64 // how many times get returned keys that differed from the previous ones
	renewed atomic.Int64 // when renew last requested keys, in Unix nanoseconds
}

func newSigner(get func(context.Context) (Keys, error), changed func() bool) *signer {
	g := &signer{get: get, changed: changed}
	g.creds = credentials.New(g)
	return g
}

// RetrieveWithCredContext returns the keys. Package minio holds a lock during the call.
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
		keys, err = g.keys, nil // keep the old keys if, for example, the file is just being written
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

// Retrieve returns the keys, for callers of minio's old interface.
func (g *signer) Retrieve() (credentials.Value, error) { return g.RetrieveWithCredContext(nil) }

// IsExpired reports whether the keys must be renewed: they expire soon, or their source has
// changed.
func (g *signer) IsExpired() bool {
	soon := !g.keys.Expires.IsZero() && time.Until(g.keys.Expires) < renewBefore
	return soon || g.changed != nil && g.changed()
}

// renew requests new keys after the server refused a request. It reports whether the keys now
// differ from those of the request. `before` is the value of `asked` when the request was made.
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
