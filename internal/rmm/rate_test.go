package rmm

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func ptr(n int) *int { return &n }

func TestParseRateStatus(t *testing.T) {
	tests := []struct {
		name, body string
		want       RateStatus
		wantErr    string
	}{
		{
			name: "modern",
			body: `{"slidingTimeWindowSizeSeconds":60,"accountUid":"ab1c0002","accountCount":134,"accountRateLimit":600,
				"accountCutOffRatio":0.85,"accountWriteRateLimit":500,"accountWriteCount":0,
				"operationWriteStatus":{"site-create":{"limit":100,"count":3},"new-thing":{"limit":7}}}`,
			want: RateStatus{
				Window: time.Minute, AccountUID: "ab1c0002", Count: 134, Limit: 600, CutOff: 0.85, WriteCount: ptr(0), WriteLimit: ptr(500),
				Operations: map[string]OperationRate{"site-create": {100, 3}, "new-thing": {7, 0}},
			},
		},
		{
			name: "legacy, fields absent",
			body: `{"slidingTimeWindowSizeSeconds":60,"accountUid":"x","accountCount":1,"accountRateLimit":600,"accountCutOffRatio":0.9}`,
			want: RateStatus{Window: time.Minute, AccountUID: "x", Count: 1, Limit: 600, CutOff: 0.9, Operations: map[string]OperationRate{}},
		},
		{
			name: "legacy, fields null",
			body: `{"slidingTimeWindowSizeSeconds":null,"accountUid":null,"accountCount":null,"accountRateLimit":600,"accountCutOffRatio":null,
				"accountWriteRateLimit":null,"accountWriteCount":null,"operationWriteStatus":null}`,
			want: RateStatus{Window: time.Minute, Limit: 600, CutOff: 0.9, Operations: map[string]OperationRate{}},
		},
		{
			name: "odd values",
			body: `{"slidingTimeWindowSizeSeconds":9e15,"accountUid":5,"accountCount":-4,"accountRateLimit":"2400","accountCutOffRatio":7,
				"operationWriteStatus":{"a":null,"b":5,"c":{"limit":99999999999,"count":2.0}}}`,
			want: RateStatus{
				Window: 24 * time.Hour, Limit: 2400, CutOff: 0.9,
				Operations: map[string]OperationRate{"c": {1<<31 - 1, 2}},
			},
		},
		{name: "no limit", body: `{"accountCount":1}`, wantErr: "accountRateLimit missing"},
		{name: "limit 0", body: `{"accountRateLimit":0}`, wantErr: "accountRateLimit missing"},
		{name: "null", body: `null`, wantErr: "expected an object"},
		{name: "array", body: `[]`, wantErr: "expected an object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseRateStatus([]byte(tt.body))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, tt.want)
			}
		})
	}
}
