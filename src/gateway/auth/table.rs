//! Which method needs which scope, and which event goes to whom, as lists of words
//! (`spec/methods.tsv`, `spec/events.tsv`). Methods that need admin are not listed: whatever is not
//! named needs it.

/// Methods that need read.
pub(super) const READ: &str = "\
    agent.identity.get agents.files.get agents.files.list agents.list agents.workspace.get \
    agents.workspace.list artifacts.download artifacts.get artifacts.list assistant.media.get \
    audit.activity.list audit.list audit.run.inspect board.data.read board.get \
    board.prompt.authorize board.widget.appView canvas.document.preview canvas.document.view \
    channels.status chat.history chat.message.get chat.metadata chat.startup commands.list \
    computer.status config.get config.schema config.schema.lookup controlUi.githubDetail \
    controlUi.githubPreview controlUi.linkPreview controlUi.sessionPreview \
    controlUi.sessionPullRequests.checks controlUi.sessionPullRequests.subscribe cron.get \
    cron.list cron.runs cron.status device.scopes.requestUpgrade device.scopes.waitUpgrade \
    diagnostics.lanes diagnostics.stability doctor.memory.dreamDiary doctor.memory.status \
    environments.session.status environments.status gateway.identity.get \
    gateway.restart.preflight gateway.suspend.status health hooks.status last-heartbeat \
    logs.tail mcp.app.listResourceTemplates mcp.app.listResources mcp.app.listTools \
    mcp.app.readResource mcp.app.view memory.search mentions.dismiss mentions.list \
    models.authStatus models.list node.describe node.list plugin.surface.refresh \
    plugins.catalog.browse plugins.catalog.categories plugins.catalog.get \
    plugins.controlUi.list plugins.controlUi.report plugins.inspect plugins.list \
    plugins.search plugins.skills.read plugins.uiDescriptors portal.list progressCard.get \
    projects.list projects.searchRemote push.web.preferences.get session.discussion.info \
    session.members.list session.members.listEvidence session.suggestions.list \
    sessions.branches.list sessions.catalog.list sessions.catalog.read sessions.companion.ask \
    sessions.companion.state sessions.describe sessions.diff sessions.files.get \
    sessions.files.list sessions.get sessions.github.options sessions.github.status \
    sessions.groups.list sessions.list sessions.messages.subscribe \
    sessions.messages.unsubscribe sessions.observer.visibility sessions.preview \
    sessions.resolve sessions.search sessions.setInvolvement sessions.subscribe sessions.usage \
    sessions.usage.logs sessions.usage.timeseries sessions.viewers.set skills.curator.status \
    skills.detail skills.library.list skills.library.read skills.proposals.events.list \
    skills.proposals.historyStatus skills.proposals.inspect skills.proposals.list \
    skills.search skills.securityVerdicts skills.skillCard skills.status skills.workshop.read \
    status system-presence system.info talk.catalog taskSuggestions.list tasks.get \
    tasks.history tasks.list themes.get themes.list tools.catalog tools.effective \
    tools.github.status transcripts.export transcripts.get transcripts.list transcripts.status \
    tts.personas tts.providers tts.status usage.cost usage.status \
    users.github.authorize.cancel users.github.authorize.poll users.github.authorize.start \
    users.github.disconnect users.github.status users.list users.listAuthLinks \
    users.listModelAccounts users.mentionable users.prefs.get users.self voicewake.get \
    voicewake.routing.get webSearch.status worktrees.list";
/// Methods that need write.
pub(super) const WRITE: &str = "\
    agent.wait board.action board.event board.update board.widget.put chat.abort chat.send \
    chat.toolTitles computer.invoke doctor.memory.backfillDreamDiary \
    doctor.memory.dedupeDreamDiary doctor.memory.repairDreamingArtifacts \
    doctor.memory.resetDreamDiary doctor.memory.resetGroundedShortTerm mcp.app.callTool \
    mcp.app.updateModelContext message.action node.pending.enqueue poll portal.close \
    portal.open progressCard.put progressCard.refresh projects.add push.test \
    push.web.preferences.set push.web.subscribe push.web.test push.web.unsubscribe \
    push.web.vapidPublicKey send session.discussion.open session.members.add \
    session.members.remove session.publicShare.set session.suggestions.add \
    session.suggestions.resolve session.typing session.visibility.set sessions.abort \
    sessions.activitySummary.ensure sessions.assignOwner sessions.catalog.archive \
    sessions.catalog.continue sessions.companion.reset sessions.fork sessions.github.confirm \
    sessions.goal.clear sessions.goal.update sessions.groups.defaults sessions.groups.delete \
    sessions.groups.put sessions.groups.rename sessions.groups.update \
    sessions.providerReview.continue sessions.reclaim sessions.recover sessions.send \
    sessions.steer sessions.title.prepare skills.library.activate skills.library.import \
    skills.library.mutate skills.library.save skills.library.upload taskSuggestions.create \
    taskSuggestions.dismiss tasks.cancel tasks.dismiss tasks.retry themes.import themes.set \
    tools.invoke transcripts.summarize tts.convert tts.disable tts.enable tts.setPersona \
    tts.setProvider tts.speak ui.command users.authConnect.answer users.authConnect.cancel \
    users.authConnect.catalog users.authConnect.start users.authConnect.status users.prefs.set \
    users.selectModelAccount users.setAvatar users.setDisplayName users.unlinkAuthProfile \
    voicewake.set wake worktrees.branches worktrees.create";
/// Methods that need approvals.
pub(super) const APPROVALS: &str = "\
    approval.get approval.history approval.resolve board.widget.grant exec.approval.get \
    exec.approval.grants.list exec.approval.grants.revoke exec.approval.list \
    exec.approval.request exec.approval.resolve exec.approval.waitDecision \
    openclaw.approval.list plugin.approval.list plugin.approval.request \
    plugin.approval.resolve plugin.approval.waitDecision";
/// Methods that need questions.
pub(super) const QUESTIONS: &str = "\
    question.get question.list question.request question.resolve question.waitAnswer";
/// Methods that need talk.
pub(super) const TALK: &str = "\
    talk.client.close talk.client.create talk.client.steer talk.client.toolCall \
    talk.client.transcript talk.mode talk.session.acknowledgeMark talk.session.appendAudio \
    talk.session.cancelOutput talk.session.close talk.session.create talk.session.steer \
    talk.session.submitToolResult talk.speak talk.voice.complete talk.voice.get talk.voice.set";
/// Methods of nodes.
pub(super) const NODE: &str = "\
    node.event node.invoke.progress node.invoke.result node.pending.ack node.pending.drain \
    node.pending.pull node.pluginSurface.refresh node.pluginTools.update \
    node.runnerInventory.update node.skills.update skills.bins";
/// Methods that need pairing.
pub(super) const PAIRING: &str = "\
    channels.pairing.dismiss channels.pairing.list device.pair.approve device.pair.list \
    device.pair.reject device.pair.remove device.pair.rename device.token.revoke \
    device.token.rotate node.pair.approve node.pair.list node.pair.reject node.pair.remove \
    node.rename";
/// Methods that need sessions.write.
pub(super) const SESSIONS_WRITE: &str = "sessions.github.publish";
/// Methods that need read and are open to sessions.read too.
pub(super) const ALSO_SESSIONS_READ: &str = "\
    chat.history chat.message.get chat.metadata chat.startup session.members.list \
    session.members.listEvidence sessions.branches.list sessions.describe sessions.files.get \
    sessions.files.list sessions.get sessions.list sessions.messages.subscribe \
    sessions.messages.unsubscribe sessions.preview sessions.resolve sessions.search \
    sessions.setInvolvement sessions.subscribe sessions.viewers.set";
/// Methods that need write, also by their parameters, and are open to sessions.write too.
pub(super) const ALSO_SESSIONS_WRITE: &str = "\
    chat.abort chat.send sessions.abort sessions.create sessions.delete sessions.fork \
    sessions.goal.clear sessions.goal.update sessions.patch sessions.patchMany \
    sessions.recover sessions.send sessions.steer";
/// Events for read.
pub(super) const EVENTS_READ: &str = "\
    agent board.changed board.command chat chat.send_timing chat.side_result config.changed \
    controlUi.sessionPullRequests.changed cron mentions.changed node.hostStats node.presence \
    node.runnerInventory.changed plugins.changed plugins.controlUi.changed portal.changed \
    presence progressCard.changed session.message session.observer session.operation \
    session.sharing session.sharing.evidence session.suggestion session.tool session.typing \
    sessions.catalog.host sessions.changed skills.changed talk.event task task.suggestion \
    ui.command users.prefs.changed voicewake.changed voicewake.routing.changed";
/// Events for everybody.
pub(super) const EVENTS_ANY: &str = "\
    gateway.suspension health heartbeat shutdown tick update.available";
/// Events for pairing.
pub(super) const EVENTS_PAIRING: &str = "\
    device.pair.changed device.pair.requested device.pair.resolved device.pair.setup.completed \
    device.pair.setup.deliveryUncertain node.pair.requested node.pair.resolved";
/// Events for approvals.
pub(super) const EVENTS_APPROVALS: &str = "\
    exec.approval.requested exec.approval.resolved openclaw.approval.requested \
    openclaw.approval.resolved plugin.approval.requested plugin.approval.resolved \
    session.approval";
/// Events for questions.
pub(super) const EVENTS_QUESTIONS: &str = "question.requested question.resolved";
/// Events for admin.
pub(super) const EVENTS_ADMIN: &str = "\
    plugins.install.progress terminal.data terminal.exit update.run.changed";
/// Events for talk.
pub(super) const EVENTS_TALK: &str = "talk.mode talk.voice.change";
/// Events for read or sessions.read.
pub(super) const EVENTS_SESSIONS_READ: &str = "chat.metadata.changed";
/// Events that a slow client may miss.
pub(super) const EVENTS_DROPPABLE: &str = "\
    chat.send_timing config.changed cron device.pair.changed device.pair.requested \
    device.pair.resolved device.pair.setup.completed device.pair.setup.deliveryUncertain \
    exec.approval.requested exec.approval.resolved heartbeat openclaw.approval.requested \
    openclaw.approval.resolved plugin.approval.requested plugin.approval.resolved presence \
    session.tool sessions.changed talk.mode task update.available voicewake.changed \
    voicewake.routing.changed";
