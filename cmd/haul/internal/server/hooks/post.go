package hooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	// maxTries is the maximum number of tries to post an event.
	maxTries = 3

	// firstPause is the pause between the first two tries. Each further pause is twice as long.
	firstPause = time.Second

	// maxAnswer is how many bytes of an answer's header, and of its body, are read at most. The
	// content of the body is not used.
	maxAnswer = 64 << 10
)

// These are the header fields that haul adds to a post.
const (
	signatureHeader = "Haul-Signature" // "sha256=" and the HMAC of the body in hexadecimal digits
	deliveryHeader  = "Haul-Delivery"  // identifies the event, so it is the same for all tries
)

// client sends posts. It does not follow redirects, because the administrator named one receiver.
var client = &http.Client{
	Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: maxRunning, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxAnswer},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// A refusal is an error after which the event is not posted again, because another try would fail
// in the same way.
type refusal struct{ error }

// post posts an event until the receiver accepts it. limit bounds the time of all tries together,
// not counting the pauses between them.
func post(limit time.Duration, target string, key, event []byte) error {
	delivery, pause := rand.Text(), firstPause
	for try := 1; ; try++ {
		err := postOnce(limit/maxTries, target, delivery, key, event)
		if _, refused := errors.AsType[refusal](err); err == nil || refused || try == maxTries {
			if err != nil {
				err = fmt.Errorf("try %d: %w", try, err)
			}
			return err
		}
		time.Sleep(pause)
		pause *= 2
	}
}

func postOnce(limit time.Duration, target, delivery string, key, event []byte) error {
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(event))
	if err != nil {
		return refusal{err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "haul")
	req.Header.Set(deliveryHeader, delivery)
	if key != nil {
		req.Header.Set(signatureHeader, signature(key, event))
	}
	answer, err := client.Do(req)
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err // leave out the URL, which may contain a secret
		}
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	switch code := answer.StatusCode; {
	case code < 300:
		return nil
	case code < 400:
		return refusal{fmt.Errorf("it answers %s, and haul follows no redirection: name the URL that it leads to", answer.Status)}
	case code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout:
		return refusal{fmt.Errorf("it answers %s", answer.Status)}
	}
	return fmt.Errorf("it answers %s", answer.Status)
}

// signature returns the value of signatureHeader for a body.
func signature(key, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
