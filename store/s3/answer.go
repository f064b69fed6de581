package s3

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// An answer holds the facts about a server's answer that package minio does not pass on.
type answer struct {
	method string // of the request
	status int
	leads  string        // scheme and host of its Location; "" if it has none
	after  time.Duration // its Retry-After
	date   time.Time     // the server's time; zero if the answer does not say
	came   time.Time     // when the answer was received, on our clock
}

type answerKey struct{}

// wholeKey is the context key that marks a request for all of a file.
type wholeKey struct{}

type patienceKey struct{}

// withPatience returns a context for requests that a server may take up to d to answer.
func withPatience(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, d)
}

// retryAfter parses a Retry-After (RFC 9110 §10.2.3). It returns 0 if the answer has no such header.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
