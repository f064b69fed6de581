package handover

import (
	"net"
	"strings"
	"time"
)

// The server, the spawner and the child exchange lines of text. Each line begins with one of these
// words. The two ends may be different versions of haul, so a word never changes its meaning.
//
//	FROM     TO       WORD             MEANING
//	server   spawner  start NAMES      start a child with the attached line and sockets
//	spawner  server   started PID      the answer: the child runs
//	server   spawner  kill             kill the latest child; the answer is its exit status
//	server   spawner  serving          process 1 passes signals to the sender from now on
//	server   spawner  handed over      process 1 passes signals to the latest child from now on, and answers that it does
//	child    server   ready            the child can serve
//	server   child    go               the child may serve
//	server   child    stop             the child must not serve, and has to exit
//	child    server   serving          the child serves
//	server   child    over SERVICE     this service of the server has ended
//	server   child    again            the child starts a successor of its own
//	server   child    history [CHUNK]  a part of the history in base64; no part: it is complete
//	both     server   failed REASON    there is no child that can serve
const (
	wordStart      = "start"
	wordStarted    = "started"
	wordKill       = "kill"
	wordServing    = "serving"
	wordHandedOver = "handed over"
	wordReady      = "ready"
	wordGo         = "go"
	wordStop       = "stop"
	wordOver       = "over"
	wordAgain      = "again"
	wordHistory    = "history"
	wordFailed     = "failed"
)

// manager is a name in place of a service in the report that a service has ended. That report means
// that the service manager knows about the child.
const manager = "manager"

// writeTime is how long sending a line may take if the other process is slow to read.
const writeTime = 5 * time.Second

// say sends a line of text that consists of these words.
func say(to *net.UnixConn, words ...string) error {
	_, err := to.Write([]byte(strings.Join(words, " ") + "\n"))
	return err
}

// oneLine replaces the line breaks in a message, so that it can be sent as one line.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
