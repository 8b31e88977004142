//! Keys that OpenClaw knows and we do not support yet: a config that uses one is refused by name,
//! since running on without what was asked for would be worse. Those that are read are in the
//! table (`keys.txt`).

/// Keys of the config itself.
pub(super) const TOP: &[&str] = &[
    "meta",
    "env",
    "wizard",
    "cli",
    "update",
    "browser",
    "ui",
    "auth",
    "acp",
    "nodeHost",
    "bindings",
    "broadcast",
    "audio",
    "media",
    "commands",
    "approvals",
    "hooks",
    "web",
    "channels",
    "discovery",
    "canvasHost",
    "talk",
    "memory",
    "mcp",
    "skills",
    "plugins",
    "secrets",
    "surfaces",
    "proxy",
    "tts",
    "transcripts",
    "security",
];
/// Keys of `models`.
pub(super) const MODELS: &[&str] = &["mode", "catalogRefresh", "pricing", "bedrockDiscovery"];
/// Keys of a provider.
pub(super) const PROVIDER: &[&str] = &[
    "auth",
    "maxTokens",
    "contextWindow",
    "contextTokens",
    "timeoutSeconds",
    "region",
    "injectNumCtxForOpenAICompat",
    "params",
    "agentRuntime",
    "localService",
    "authHeader",
    "request",
];
/// Keys of a model.
pub(super) const MODEL: &[&str] = &[
    "baseUrl",
    "contextTokens",
    "thinkingLevelMap",
    "params",
    "agentRuntime",
    "headers",
    "mediaInput",
    "metadataSource",
];
/// Keys of a model's `compat`.
pub(super) const COMPAT: &[&str] = &[
    "supportsPromptCacheKey",
    "supportsReasoningEffort",
    "supportsTemperature",
    "codeMode",
    "supportsStrictMode",
    "supportsJsonSchemaResponseFormat",
    "strictMessageKeys",
    "visibleReasoningDetailTypes",
    "supportedReasoningEfforts",
    "reasoningEffortMap",
    "thinkingFormat",
    "requiresThinkingAsText",
    "requiresReasoningContentOnAssistantMessages",
    "toolSchemaProfile",
    "unsupportedToolSchemaKeywords",
    "nativeWebSearchTool",
    "toolCallArgumentsEncoding",
    "requiresOpenAiAnthropicToolPayload",
    "openRouterRouting",
];
/// Keys of `agents`.
pub(super) const AGENTS: &[&str] = &["list", "entries"];
/// Keys of `agents.defaults`.
pub(super) const DEFAULTS: &[&str] = &[
    "params",
    "agentRuntime",
    "imageModel",
    "imageGenerationModel",
    "videoGenerationModel",
    "musicGenerationModel",
    "pdfModel",
    "pdfMaxBytesMb",
    "pdfMaxPages",
    "mediaGenerationAutoProviderFallback",
    "models",
    "skills",
    "silentReply",
    "repoRoot",
    "promptOverlays",
    "systemPromptOverride",
    "bootstrapPromptTruncationWarning",
    "userTimezone",
    "startupContext",
    "contextLimits",
    "timeFormat",
    "envelopeTimezone",
    "envelopeTimestamp",
    "envelopeElapsed",
    "contextTokens",
    "cliBackends",
    "memorySearch",
    "contextPruning",
    "compaction",
    "embeddedPi",
    "llm",
    "thinkingDefault",
    "verboseDefault",
    "reasoningDefault",
    "elevatedDefault",
    "toolProgressDetail",
    "blockStreamingDefault",
    "blockStreamingBreak",
    "blockStreamingChunk",
    "blockStreamingCoalesce",
    "humanDelay",
    "mediaMaxMb",
    "imageMaxDimensionPx",
    "typingIntervalSeconds",
    "typingMode",
    "heartbeat",
    "sandbox",
    "runRetries",
];
/// Keys of `agents.defaults.compaction`.
pub(super) const COMPACTION: &[&str] = &[
    "mode",
    "provider",
    "model",
    "thinkingLevel",
    "timeoutSeconds",
    "reserveTokensFloor",
    "maxHistoryShare",
    "customInstructions",
    "identifierPolicy",
    "identifierInstructions",
    "recentTurnsPreserve",
    "qualityGuard",
    "postCompactionSections",
    "postIndexSync",
    "maxActiveTranscriptBytes",
    "truncateAfterCompaction",
    "notifyUser",
    "memoryFlush",
];
/// Keys of `agents.defaults.subagents`.
pub(super) const SUBAGENTS: &[&str] = &[
    "delegationMode",
    "allowAgents",
    "requireAgentId",
    "maxSpawnDepth",
    "maxChildrenPerAgent",
    "archiveAfterMinutes",
    "model",
    "thinking",
    "runTimeoutSeconds",
    "announceTimeoutMs",
];
/// Keys of `messages`.
pub(super) const MESSAGES: &[&str] = &[
    "responsePrefix",
    "messagePrefix",
    "ackReaction",
    "ackReactionScope",
    "removeAckAfterReply",
    "statusReactions",
    "inbound",
    "groupChat",
    "visibleReplies",
    "usageTemplate",
    "responseUsage",
    "suppressToolErrors",
    "tts",
];
/// Keys of `session`.
pub(super) const SESSION: &[&str] = &[
    "scope",
    "resetByType",
    "resetByChannel",
    "resetTriggers",
    "idleMinutes",
    "heartbeatIdleMinutes",
    "store",
    "maintenance",
    "threadBindings",
    "sharing",
    "sendPolicy",
    "agentToAgent",
    "typingIntervalSeconds",
    "typingMode",
    "parentForkMaxTokens",
    "writeLock",
];
/// Keys of `cron`.
pub(super) const CRON: &[&str] = &[
    "enabled",
    "store",
    "retry",
    "triggers",
    "webhook",
    "webhookToken",
    "sessionRetention",
    "runLog",
    "failureAlert",
    "failureDestination",
];
/// Keys of `diagnostics`.
pub(super) const DIAGNOSTICS: &[&str] =
    &["enabled", "flags", "otel", "cacheTrace", "memoryPressureSnapshot", "memoryPressureBundle"];
/// Keys of `tools`.
pub(super) const TOOLS: &[&str] = &[
    "profile",
    "allow",
    "alsoAllow",
    "deny",
    "byProvider",
    "toolsBySender",
    "web",
    "media",
    "links",
    "sessions",
    "message",
    "agentToAgent",
    "elevated",
    "fs",
    "subagents",
    "sandbox",
    "sessions_spawn",
    "experimental",
    "codeMode",
    "toolSearch",
    "github",
];
/// Keys of `tools.exec`.
pub(super) const EXEC: &[&str] = &[
    "host",
    "mode",
    "security",
    "ask",
    "node",
    "pathPrepend",
    "safeBins",
    "strictInlineEval",
    "commandHighlighting",
    "safeBinTrustedDirs",
    "safeBinProfiles",
    "reviewer",
    "backgroundMs",
    "approvalRunningNoticeMs",
    "cleanupMs",
    "notifyOnExit",
    "notifyOnExitEmptySuccess",
];
/// Keys of `tools.exec.applyPatch`.
pub(super) const APPLY_PATCH: &[&str] = &["allowModels"];
/// Keys of `tools.loopDetection`.
pub(super) const LOOP: &[&str] = &[
    "historySize",
    "warningThreshold",
    "unknownToolThreshold",
    "criticalThreshold",
    "globalCircuitBreakerThreshold",
    "detectors",
    "postCompactionGuard",
];
/// Protocols of OpenClaw's that we do not speak.
pub(super) const APIS: &[&str] = &[
    "openai-responses",
    "openai-codex-responses",
    "openai-chatgpt-responses",
    "anthropic-messages",
    "google-generative-ai",
    "google-vertex",
    "github-copilot",
    "bedrock-converse-stream",
    "ollama",
    "azure-openai-responses",
];
/// Keys of `gateway`.
pub(super) const GATEWAY: &[&str] = &[
    "remote",
    "tls",
    "tailscale",
    "reload",
    "trustedProxies",
    "allowRealIpFallback",
    "tools",
    "channelHealthCheckMinutes",
    "push",
];
/// Keys of `gateway.auth`.
pub(super) const GATEWAY_AUTH: &[&str] = &["trustedProxy", "rateLimit"];
/// Keys of `gateway.controlUi`.
pub(super) const GATEWAY_UI: &[&str] = &[
    "allowInsecureAuth",
    "dangerouslyDisableDeviceAuth",
    "embedSandbox",
    "allowExternalEmbedUrls",
];
/// Keys of `gateway.nodes`.
pub(super) const GATEWAY_NODES: &[&str] = &["browser", "allowCommands", "denyCommands"];
/// Keys of `gateway.nodes.pairing`.
pub(super) const GATEWAY_PAIRING: &[&str] = &["autoApproveCidrs"];
/// Keys of `gateway.http`.
pub(super) const GATEWAY_HTTP: &[&str] = &["securityHeaders"];
/// Keys of `gateway.http.endpoints`.
pub(super) const GATEWAY_ENDPOINTS: &[&str] = &["responses"];
/// Keys of `logging`.
pub(super) const LOGGING: &[&str] = &[
    "file",
    "maxFileBytes",
    "consoleLevel",
    "consoleStyle",
    "redactSensitive",
    "redactPatterns",
    "audit",
];
/// Levels of OpenClaw's log that we do not have.
pub(super) const LEVELS: &[&str] = &["silent", "fatal", "trace"];
