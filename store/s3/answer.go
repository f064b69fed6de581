package s3

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// An answer holds facts about a server's response that package minio does not return.
type answer struct {
	method string // method of the request
	status int
	leads  string        // scheme and host of the Location header; "" if there is no such header
	after  time.Duration // value of the Retry-After header; 0 if there is no such header
	date   time.Time     // the Date header: the server's time; zero if there is no such header
	came   time.Time     // when the answer was received, by the clock of this machine
}

type answerKey struct{}

// wholeKey is the context key that marks a request for a complete file.
type wholeKey struct{}

type patienceKey struct{}

// withPatience returns a context for requests that may take up to d to be answered, if d is longer
// than Config.AnswerTimeout.
func withPatience(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, d)
}

// retryAfter parses a Retry-After header (RFC 9110 §10.2.3). It returns 0 if there is no valid
// header.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
