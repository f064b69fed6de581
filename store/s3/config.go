package s3

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// The defaults of the fields of [Config] that are zero.
const (
	DefaultConns  = 256
	DefaultLanes  = 16
	DefaultMemory = 512 << 20

	DefaultConnectTimeout = 30 * time.Second
	DefaultAnswerTimeout  = time.Minute
	DefaultStallTimeout   = time.Minute
)

// A Config says how a [Store] reaches its server. The zero value is as the tools of AWS
// have it: what a field does not say comes from the variables AWS_ENDPOINT_URL_S3,
// AWS_ENDPOINT_URL, AWS_REGION and AWS_DEFAULT_REGION, or else from the profile of the
// files ~/.aws/config and ~/.aws/credentials that AWS_PROFILE names.
type Config struct {
	// Endpoint is the URL of the server, such as http://127.0.0.1:7070; "" means that of
	// the environment, or else Amazon's. The bucket is the first element of the path where
	// the host is an address or localhost, or has no dot, and else the first of the host's
	// name for Amazon and the first of the path for others.
	Endpoint string

	Region string // "" means that of the environment, or us-east-1 at other servers than Amazon's

	// Keys, if set, returns what requests are signed with. It is called again when they
	// have expired, or are refused; so they are renewed while a store is in use. Without
	// it they come from the environment, the files of the profile, or the services that a
	// machine or a container of a cloud asks for them, whichever is the first to have some.
	Keys func(ctx context.Context) (Keys, error)

	Anonymous bool // do not sign requests: the bucket is public

	TLS *tls.Config // nil means that of crypto/tls

	// Dial, if set, makes the connections, in place of net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Conns int // connections at a time; 0 means DefaultConns
	Lanes int // parts of one file that are on their way at a time; 0 means DefaultLanes

	// Memory bounds the bytes that uploads of several parts hold. One that would take more
	// waits for others. 0 means DefaultMemory.
	Memory int64

	ConnectTimeout time.Duration // 0 means DefaultConnectTimeout
	AnswerTimeout  time.Duration // until the headers of an answer have come; 0 means DefaultAnswerTimeout
	StallTimeout   time.Duration // without progress of a body; 0 means DefaultStallTimeout

	UserAgent string // "" means "haul"

	// Waiting, if set, is called each time that a request is going to be sent again after a
	// pause: the server has no time for it, or the connection was lost. Several goroutines
	// may call it at a time, and it holds them up.
	Waiting func(err error, pause time.Duration)

	// Getenv, if set, takes the place of os.Getenv.
	Getenv func(key string) string
}
