package protocol

import (
	"encoding/binary"

	"github.com/haul-project/haul/tftp/transfer"
)

// ParseRequest parses a read or write request (RFC 1350 §5, RFC 2347). The case of mode and option
// names does not matter. Options that are unknown, malformed or repeated are ignored. The error is
// always a [*transfer.Error] that can be sent as the answer.
func ParseRequest(b []byte) (transfer.Request, error) { return ParseRequestWithout(0, b) }

// ParseRequestWithout is like ParseRequest, but also ignores the options in refused.
func ParseRequestWithout(refused transfer.OptionSet, b []byte) (transfer.Request, error) {
	op := transfer.OpcodeOf(b)
	if op != transfer.ReadRequest && op != transfer.WriteRequest {
		return transfer.Request{}, &transfer.Error{Code: transfer.IllegalOperation, Message: "not a request"}
	}
	if len(b) > transfer.MaxRequest {
		return transfer.Request{}, &transfer.Error{Code: transfer.IllegalOperation, Message: "request too long"}
	}
	name, rest, ok := cutField(b[2:])
	if !ok || len(name) == 0 {
		return transfer.Request{}, &transfer.Error{Code: transfer.IllegalOperation, Message: "request without a file name"}
	}
	mode, rest, ok := cutField(rest)
	if !ok {
		return transfer.Request{}, &transfer.Error{Code: transfer.IllegalOperation, Message: "request without a mode"}
	}
	r := transfer.Request{Write: op == transfer.WriteRequest, Name: string(name)}
	switch {
	case equalFold(mode, "octet"):
	case equalFold(mode, "netascii"):
		r.Mode = transfer.Netascii
	default:
		return transfer.Request{}, &transfer.Error{Code: transfer.IllegalOperation, Message: "mode is neither octet nor netascii"}
	}
	r.Offer = parseOffer(rest, refused)
	return r, nil
}

// AppendRequest appends a request packet.
func AppendRequest(b []byte, r transfer.Request) []byte {
	op := transfer.ReadRequest
	if r.Write {
		op = transfer.WriteRequest
	}
	b = binary.BigEndian.AppendUint16(b, uint16(op))
	b = append(append(b, r.Name...), 0)
	b = append(append(b, r.Mode.String()...), 0)
	return appendOptions(b, r.Offer)
}

// AppendHeader appends the header of a DATA packet, for drivers that build a run of blocks in one
// buffer. The argument block counts from 1 and never wraps; the number in the packet does wrap.
func AppendHeader(b []byte, block int64, roll transfer.Rollover) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(transfer.Data))
	return binary.BigEndian.AppendUint16(b, wireNumber(block, roll))
}

func appendAck(b []byte, block int64, roll transfer.Rollover) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(transfer.Acknowledgement))
	return binary.BigEndian.AppendUint16(b, wireNumber(block, roll))
}

func appendOptionAck(b []byte, o transfer.Options) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(transfer.OptionAck))
	return appendOptions(b, o)
}
