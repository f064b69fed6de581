package s3

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"time"
)

// These are the defaults for fields of [Config] that are zero.
const (
	defaultConns  = 256
	defaultParts  = 16
	defaultMemory = 512 << 20

	defaultConnectTimeout = 30 * time.Second
	defaultAnswerTimeout  = time.Minute
	defaultStallTimeout   = time.Minute
)

// A Config says how a [Store] connects to its server. The zero value behaves like the AWS tools:
// settings come from the variables AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION and
// AWS_DEFAULT_REGION, or else from the files ~/.aws/config and ~/.aws/credentials, in which
// AWS_PROFILE selects the profile.
type Config struct {
	// Endpoint is the URL of the server, such as http://127.0.0.1:7070. "" means the endpoint from
	// the environment or, if that is unset, Amazon's. For Amazon, the bucket becomes the first
	// element of the host name. For all other servers, it becomes the first element of the path,
	// because their host may be an address or have no dot.
	Endpoint string

	Region string // "" means the region from the environment, or us-east-1 for servers other than Amazon's

	// Keys, if set, returns the keys that sign requests. It is called again when the keys have
	// expired or are refused, so keys can be renewed while a store is in use. Without it, keys come
	// from the first of these sources that has any: the environment, the files of the profile, and
	// the service that provides keys to a machine or a container in a cloud.
	Keys func(ctx context.Context) (Keys, error)

	Anonymous bool // requests are not signed, because the bucket is public

	TLS *tls.Config // nil means the defaults of crypto/tls

	// Dial, if set, makes the connections, instead of net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Conns int // largest number of connections; 0 means 256
	Parts int // how many parts of a file are transferred at the same time; 0 means 16

	// Memory is the most memory, in bytes, for the parts of uploads. An upload that would exceed it
	// waits until others need less. 0 means 512 MiB.
	Memory int64

	ConnectTimeout time.Duration // 0 means 30 s
	AnswerTimeout  time.Duration // longest wait for the headers of an answer; 0 means one minute
	StallTimeout   time.Duration // longest time without progress of a body; 0 means one minute

	UserAgent string // "" means "haul"

	// Waiting, if set, is called when a request is to be repeated after a pause, because the server
	// was too busy or the connection was lost. Several goroutines may call it at the same time;
	// each waits until the call returns.
	Waiting func(err error, pause time.Duration)

	// Getenv, if set, is used instead of os.Getenv.
	Getenv func(key string) string
}

// fill sets fields that are zero to their defaults.
func (c *Config) fill() {
	for _, d := range []struct {
		field *time.Duration
		usual time.Duration
	}{{&c.ConnectTimeout, defaultConnectTimeout}, {&c.AnswerTimeout, defaultAnswerTimeout}, {&c.StallTimeout, defaultStallTimeout}} {
		if *d.field <= 0 {
			*d.field = d.usual
		}
	}
	if c.Conns <= 0 {
		c.Conns = defaultConns
	}
	if c.Parts <= 0 {
		c.Parts = defaultParts
	}
	if c.Memory <= 0 {
		c.Memory = defaultMemory
	}
	c.UserAgent = cmp.Or(c.UserAgent, "haul")
}
